"""Commands, options and listings of other tools → their names here. Three tables.

Words in capitals are to be filled in; all others can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.core.errors import did_you_mean

# Command that does not exist here → the one to run instead.
COMMANDS = {
    **dict.fromkeys(("validate", "lint", "verify"), "check PATH"),
    **dict.fromkeys(("list", "tasks", "list-tasks", "list_tasks"), "ls tasks"),
    "models": "ls models",
    "metrics": "ls metrics",
    "runs": "ls runs",
    "history": "ls runs",
    **dict.fromkeys(("eval", "evaluate", "lm_eval", "lm-eval", "test", "bench", "benchmark", "score", "resume"), "run"),
    **dict.fromkeys(("train", "fit", "fine-tune", "fine_tune"), "finetune"),
    **dict.fromkeys(("diff", "cmp", "versus", "vs"), "compare RUN RUN"),
    **dict.fromkeys(("dry-run", "dry_run", "dryrun", "estimate", "cost"), "plan"),
    **dict.fromkeys(("inspect", "view", "print", "write_out", "sample"), "show TASK"),
    **dict.fromkeys(("ping", "server"), "probe"),
    **dict.fromkeys(("leaderboard", "table", "grid"), "matrix"),
    **dict.fromkeys(("re-score", "re_score", "metric"), "rescore RUN"),
    "why": "explain RUN RUN",
    **dict.fromkeys(("new", "scaffold", "init", "create", "make", "add"), "task new FILE"),
}

_SHOTS = "--num_fewshot N"
_PATH = "--output_path DIR"
_LIMIT = "--limit N"
_WEIGHTS = "--model hf --model_args pretrained=FOLDER_OR_HUB_ID"
_WRITING = "--gen_kwargs"
# Option that does not exist here → the one with the same meaning.
OPTIONS = {
    "--task": "--tasks NAME",
    "--benchmark": "--tasks NAME",
    **dict.fromkeys(("--shots", "--fewshot", "--few_shot", "--n_shots", "--nshot", "--n_shot", "--num_shots"), _SHOTS),
    **dict.fromkeys(("--fewshots", "--k_shot", "--shot", "--num_few_shot", "--few_shots"), _SHOTS),
    **dict.fromkeys(("--out", "--output", "--output_dir", "--outdir", "--out_dir", "--results", "--log_dir"), _PATH),
    **dict.fromkeys(("--limits", "--n", "--num_samples", "--max_samples", "--max_examples", "--num_examples"), _LIMIT),
    **dict.fromkeys(("--max_instances", "--num_docs", "--subset"), _LIMIT),
    **dict.fromkeys(("--pretrained", "--model_path", "--model_name", "--model_name_or_path", "--checkpoint"), _WEIGHTS),
    **dict.fromkeys(("--hf_model", "--model_id"), _WEIGHTS),
    **{f"--{name}": f"{_WRITING} {name}=X" for name in ("temperature", "top_p", "top_k", "max_gen_toks", "do_sample")},
    **dict.fromkeys(("--max_tokens", "--max_new_tokens"), f"{_WRITING} max_gen_toks=N"),
    **{f"--{name}": f"--model_args {name}=X" for name in ("dtype", "revision", "tokenizer", "max_length", "quantize")},
    **dict.fromkeys(("--precision", "--torch_dtype"), "--model_args dtype=X"),
    **dict.fromkeys(("--load_in_8bit", "--load_in_4bit", "--int8"), "--model_args quantize=int8_weights"),
    **dict.fromkeys(("--bs", "--batch", "--batchsize"), "--batch_size N"),
    **dict.fromkeys(("--chat", "--chat_template", "--apply_template", "--use_chat_template"), "--apply_chat_template"),
    **dict.fromkeys(("--system", "--system_prompt"), "--system_instruction TEXT"),
    **dict.fromkeys(("--random_seed", "--rng"), "--seed N"),
    **dict.fromkeys(("--cache", "--cache_dir", "--db", "--database"), "--store FILE"),
    **dict.fromkeys(("--task_dir", "--tasks_dir", "--task_path", "--include", "--include_paths"), "--include_path DIR"),
    **dict.fromkeys(("--save_samples", "--log_outputs", "--write_samples"), "--log_samples"),
    **dict.fromkeys(("--batch_api", "--use_batch"), "--model_args batch_api=true"),
    **dict.fromkeys(("--max_connections", "--max_concurrency", "--num_concurrent"), "--model_args num_concurrent=N"),
    **dict.fromkeys(("--base_url", "--model_base_url", "--api_base"), "--model_args base_url=URL"),
    **dict.fromkeys(("--cost_limit", "--max_cost", "--max_budget"), "--budget DOLLARS"),
    **dict.fromkeys(("--measure",), "--metrics NAME"),
    **dict.fromkeys(("--trust_code", "--allow_unsafe_code", "--run_code"), "--allow_code"),
    **dict.fromkeys(("--epoch", "--num_epochs", "--num_train_epochs"), "--epochs N"),
    **dict.fromkeys(("--lr",), "--learning_rate X"),
}

# Argument of `ls` that does not exist here → the one with the same meaning. lm-eval's subtasks are the tasks.
LISTINGS = {
    **dict.fromkeys(("subtask", "subtasks"), "tasks"),
    **{name.removesuffix("s"): name for name in ("tasks", "groups", "tags", "models", "metrics", "filters", "runs")},
    "style": "styles",
    "method": "methods",
    "profile": "profiles",
    "benchmarks": "tasks",
    "history": "runs",
}


def command_hint(name: str, known: Iterable[str]) -> str:
    """` (here: assay check)`, or the nearest names."""
    ours = COMMANDS.get(name.lower())
    return f" (here: assay {ours})" if ours is not None else did_you_mean(name, known)


def option_hint(name: str, known: Iterable[str]) -> str:
    """` (here: --num_fewshot N)` if the command has that option, or the nearest names."""
    ours = OPTIONS.get(name.lower())
    has_it = ours is not None and ours.split()[0] in known
    return f" (here: {ours})" if has_it else did_you_mean(name, known)
