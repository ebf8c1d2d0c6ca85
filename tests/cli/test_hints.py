"""What people type, and the hint they get: a name that works, in a form that can be pasted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import COMMANDS
from assay.models.aliases import UNSUPPORTED_MODELS
from assay.models.loading.argument_hints import UNSUPPORTED_ARGUMENTS
from assay.models.loading.hf_arguments import BACKEND, READERS
from assay.models.model_registry import ALIASES, is_known
from assay.options import hints
from assay.options.parser import make_parser

Cli = Callable[..., Any]
RUN = ["run", "--model", "dummy", "--tasks", "demo_cloze"]
SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
MODEL = SHARED / "data" / "models" / "stories260k"

# The model registry and the arguments of HFLM of lm-eval 0.4.13; see docs/lm-eval-compatibility.md.
LM_EVAL_MODELS = [
    *("anthropic-chat", "anthropic-chat-completions", "anthropic-completions", "dummy"),
    *("ggml", "gguf", "habana", "hf"),
    *("hf-audiolm-qwen", "hf-auto", "hf-mistral3", "hf-multimodal"),
    *("huggingface", "ipex", "litellm", "litellm-chat"),
    *("litellm-chat-completions", "local-chat-completions", "local-completions", "mamba_ssm"),
    *("megatron_lm", "nemo_lm", "neuronx", "onnxruntime"),
    *("onnxruntime-genai", "openai-chat-completions", "openai-completions", "openvino"),
    *("sglang", "sglang-generate", "steered", "textsynth"),
    *("trtllm", "vllm", "vllm-vlm", "watsonx_llm"),
    *("winml",),
]
LM_EVAL_DEFAULTS = {
    "backend": "default",
    "revision": "main",
    "subfolder": "",
    "tokenizer": None,
    "truncation": False,
    "logits_cache": True,
    "max_length": None,
    "device": "cuda",
    "dtype": "auto",
    "softmax_dtype": None,
    "mixed_precision_dtype": None,
    "batch_size": 1,
    "max_batch_size": 64,
    "trust_remote_code": False,
    "use_fast_tokenizer": True,
    "add_bos_token": None,
    "prefix_token_id": None,
    "parallelize": False,
    "max_memory_per_gpu": None,
    "max_cpu_memory": None,
    "offload_folder": "./offload",
    "tp_plan": None,
    "peft": None,
    "delta": None,
    "autogptq": False,
    "gptqmodel": False,
    "gguf_file": None,
    "think_end_token": None,
    "enable_thinking": None,
    "chat_template_args": None,
}

# What is typed after `assay` → what stands in the error. Exit code 2, one line.
TYPED = {
    "validate task.yaml": 'unknown command "validate" (here: assay check PATH)',
    "list": "(here: assay ls tasks)",
    "eval --model dummy": "(here: assay run)",
    "evaluate": "(here: assay run)",
    "run --model dummy --task demo_cloze": "--task: unknown option (here: --tasks NAME)",
    "run --shots 3": "(here: --num_fewshot N)",
    "run --fewshot 3": "(here: --num_fewshot N)",
    "run --n_shots 3": "(here: --num_fewshot N)",
    "run --out x": "(here: --output_path DIR)",
    "run --output x": "(here: --output_path DIR)",
    "run --limits 3": "(here: --limit N)",
    "run --temperature 0.7": "(here: --gen_kwargs temperature=X)",
    "run --dtype half": "(here: --model_args dtype=X)",
    "run --model dummy --tasks list": "Run: assay ls tasks",
    "run --model dummy --tasks demo_clozee": 'did you mean "demo_cloze"',
    "run --model gpt2 --tasks demo_cloze": "--model hf --model_args pretrained=gpt2",
    "run --model vllm --tasks demo_cloze": "--model hf --model_args pretrained=FOLDER_OR_HUB_ID",
    "run --model vllm --model_args pretrained=gpt2 --tasks demo_cloze": "--model hf --model_args pretrained=gpt2",
    "run --model local-completions --tasks demo_cloze": "Add: base_url=http://HOST:PORT/v1",
    "run --model openai-chat-completions --tasks demo_cloze": "Add: model=NAME",
    "run --model vllm --model_args model=m --tasks demo_cloze": "--model_args model=NAME,base_url=URL",
    "run --model sglang-generate --tasks demo_cloze": "Add: base_url=http://HOST:PORT/v1",
    "run --model anthropic-chat --tasks demo_cloze": "Add: model=NAME",
    "run --model anthropic-completions --tasks demo_cloze": "this provider's own API is not supported yet",
    "run --model gguf --tasks demo_cloze": "--model FOLDER/NAME.gguf",
    "run --model ./nowhere --tasks demo_cloze": "./nowhere: no such folder",
    "run --model dummy --tasks demo_cloze --metrics accuracy": 'unknown metric "accuracy" (did you mean "acc"?)',
    "run --model dummy --tasks demo_cloze --metrics em": 'did you mean "exact_match"',
    "run --model dummy --tasks demo_cloze --metrics rouge": 'did you mean "rouge1" or "rouge2" or "rougeL"',
    "run --model dummy --tasks demo_cloze --metrics f1_score": 'did you mean "f1"',
    "run --model dummy --tasks demo_cloze --metrics bleu": "expected some of: acc, perplexity",
    "run --model dummy --tasks demo_questions --metrics acc +f1": "To add all: --metrics +acc,+f1",
}


@pytest.mark.parametrize("typed", TYPED)
def test_what_people_type_is_answered_with_what_works(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(*typed.split())
    assert done.code == 2
    assert TYPED[typed] in done.err, done.err


def test_every_suggested_command_and_option_is_there() -> None:
    assert {ours.split()[0] for ours in hints.COMMANDS.values()} <= set(COMMANDS)
    assert not set(hints.COMMANDS) & set(COMMANDS)
    ours = set(make_parser("run")._option_string_actions)
    assert {text.split()[0] for text in hints.OPTIONS.values()} <= ours
    assert not set(hints.OPTIONS) & ours


def test_subtasks_are_the_tasks(cli: Cli) -> None:
    assert cli("ls", "subtasks", "--json") == cli("ls", "tasks", "--json")
    assert cli("ls", "subtask", "--json") == cli("ls", "tasks", "--json")
    assert cli("ls", "metric").code == 0


def test_repeated_plus_adds_all(cli: Cli) -> None:
    words = ["run", "--model", "dummy", "--tasks", "demo_questions", "--limit", "3", "--metrics"]
    for metrics in (["+acc_norm", "+f1"], ["+acc_norm,+f1"], ["+acc_norm", "f1"]):
        done = cli(*words, *metrics)
        assert done.code == 0
        assert all(name in done.out for name in ("acc", "acc_norm", "f1"))


# Models


@pytest.mark.parametrize("name", LM_EVAL_MODELS)
def test_every_model_name_of_lm_eval_is_known_or_answered(cli: Cli, name: str) -> None:
    if is_known(name) or name in ALIASES:
        return
    assert name in UNSUPPORTED_MODELS
    done = cli("run", "--model", name, "--tasks", "demo_cloze")
    assert (done.code, f"--model {name}: " in done.err, "--model " in done.err.split(": ", 2)[2]) == (2, True, True)


def test_a_folder_is_a_model(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert "For the folder gpt2: --model ./gpt2" in cli("run", "--model", "gpt2", "--tasks", "demo_cloze").err
    done = cli("run", "--model", "./gpt2", "--tasks", "demo_cloze")
    assert (done.code, "no config.json: not a model folder" in done.err) == (2, True)
    assert "note: --model ./gpt2: understood as --model hf --model_args pretrained=./gpt2" in done.err


@pytest.mark.skipif(not MODEL.is_dir(), reason="ASSAY_SHARED names no folder with the model stories260k")
def test_a_folder_runs_as_hf_would_and_shares_its_answers(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    shutil.copytree(MODEL, tmp_path / "tiny")
    words = ["--tasks", "demo_cloze", "--limit", "2"]
    assert cli("run", "--model", tmp_path / "tiny", *words).code == 0
    again = cli("run", "--model", "hf", "--model_args", f"pretrained={tmp_path / 'tiny'}", *words)
    assert "2 already known, 0 executed" in again.out
    both = cli("run", "--model", tmp_path / "tiny", "--model_args", "pretrained=x", *words)
    assert "already names the weights. Leave pretrained out, or use: --model hf" in both.err


def test_a_gguf_file_is_a_model(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.gguf").write_bytes(b"none")
    done = cli("plan", "--model", "tiny.gguf", "--tasks", "demo_cloze")
    assert "--model tiny.gguf: understood as --model hf --model_args pretrained=.,gguf_file=tiny.gguf" in done.err
    assert done.code == 2 and "GGUF" in done.err


# Model arguments


def test_every_argument_of_lm_evals_models_works_or_says_what_to_do() -> None:
    documented = Path(__file__).parents[2] / "docs" / "lm-eval-compatibility.md"
    section = documented.read_text().partition("## Model arguments")[2].partition("\n## ")[0]
    for name in LM_EVAL_DEFAULTS:
        assert name in READERS or name == BACKEND or name in UNSUPPORTED_ARGUMENTS, name
    for name in {*LM_EVAL_DEFAULTS, *UNSUPPORTED_ARGUMENTS, *READERS, "pretrained"}:
        assert f"`{name}`" in section, name


def test_the_defaults_of_lm_eval_are_taken() -> None:
    from assay.models.loading.hf_arguments import read_causal_arguments

    assert read_causal_arguments({"pretrained": "x", **LM_EVAL_DEFAULTS}).pretrained == "x"


@pytest.mark.parametrize("name", UNSUPPORTED_ARGUMENTS)
def test_an_argument_that_is_elsewhere_is_never_ignored(cli: Cli, name: str) -> None:
    done = cli("run", "--model", "hf", "--model_args", f"pretrained=x,{name}=7", "--tasks", "demo_cloze")
    assert done.code == 2
    assert f"error: model_args.{name}: " in done.err and "hf does not have this argument. " in done.err


def test_secrets_in_arguments_are_not_repeated(cli: Cli) -> None:
    done = cli("run", "--model", "hf", "--model_args", "pretrained=x,token=hf_canary", "--tasks", "demo_cloze")
    assert "hf auth login" in done.err and "hf_canary" not in done.err


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("peft=my/adapter", "M.from_pretrained('my/adapter').merge_and_unload().save_pretrained('merged')"),
        ("load_in_4bit=True", "Use: quantize=int8_weights"),
        ("load_in_8bit=True", "Use: quantize=int8_weights"),
        ("parallelize=True", "A model runs on one device. Choose it with device=cuda:1"),
        ("torch_dtype=float16", "Use: dtype=float16"),
        ("max_model_len=512", "Use: max_length=512"),
    ],
)
def test_advice_for_arguments_names_what_was_given(cli: Cli, given: str, advice: str) -> None:
    done = cli("run", "--model", "hf", "--model_args", f"pretrained=base,{given}", "--tasks", "demo_cloze")
    assert advice in done.err


@pytest.mark.parametrize(("name", "dtype"), [("half", "float16"), ("bf16", "bfloat16"), ("torch.float", "float32")])
def test_other_names_of_number_formats_are_taken(name: str, dtype: str) -> None:
    from assay.models.loading.hf_arguments import read_causal_arguments

    assert read_causal_arguments({"pretrained": "x", "dtype": name}).dtype == dtype


# Tasks


DATA = {
    "q.csv": "question,answer\nWhat is 1 + 1?,2\nWhat is 2 + 2?,4\n",
    "q.jsonl": '{"query": "Sky?", "choices": ["red", "blue"], "gold": 1}\n'
    '{"query": "Grass?", "choices": ["red", "green"], "gold": 1}\n',
    "q.json": '[{"prompt": "Sky?", "target": "blue"}, {"prompt": "Grass?", "target": "green"}]',
    "q.tsv": "question\tA\tB\tanswer\nSky?\tred\tblue\tB\nGrass?\tgreen\tred\tA\n",
    "odd.csv": "first col,frage,loesung\n1,Himmel?,blau\n2,Gras?,gelb\n",
}


@pytest.mark.parametrize("name", DATA)
def test_a_data_file_gets_a_task_file_that_works(cli: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(DATA[name])
    done = cli("run", "--model", "dummy", "--tasks", path)
    assert (done.code, "is a data file" in done.err) == (2, True)
    lines = [line[4:] for line in done.err.splitlines() if line.startswith("    ")]
    path.with_suffix(".yaml").write_text("\n".join(lines) + "\n")
    assert f"--tasks {path.with_suffix('.yaml')}" in done.err
    again = cli("run", "--model", "dummy", "--tasks", path.with_suffix(".yaml"))
    assert (again.code, again.err.count("error")) == (0, 0), again.err
    assert cli("check", path.with_suffix(".yaml")).code == 0


def test_folders_without_task_files_say_what_to_do(cli: Cli, tmp_path: Path, task_folder: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert 'no task file (*.yaml) in the folder "' in cli("run", "--model", "dummy", "--tasks", empty).err
    done = cli("run", "--model", "dummy", "--tasks", tmp_path)
    assert f"--include_path {tmp_path} --tasks NAME" in done.err
    assert cli("run", "--model", "dummy", "--include_path", tmp_path, "--tasks", "colours").code == 0


def test_a_task_of_an_installed_lm_eval_is_found_without_importing_it(
    process: Cli, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", "--model", "dummy", "--tasks", "frobnicate"]
    advice = "For lm-eval's own tasks: pip install 'assay-eval[lm-eval-tasks]', then --tasks lm_eval/frobnicate"
    assert advice in process(*words).err
    folder = tmp_path / "site" / "lm_eval" / "tasks" / "frobnicate"
    folder.mkdir(parents=True)
    (folder.parents[1] / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "frobnicate.yaml").write_text(
        "task: frobnicate\ndataset_path: json\ndataset_kwargs: {data_files: {test: h.jsonl}}\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: [a, b]\ndoc_to_target: label\n"
    )
    (folder / "h.jsonl").write_text('{"q": "?", "label": 0}\n')
    done = process(*words)
    assert done.err == (
        'error: --tasks: unknown task "frobnicate". The installed lm-eval has it: --tasks lm_eval/frobnicate\n'
    )
    assert process(*words[:-1], "lm_eval/frobnicate").code == 0
    assert 'a similar name (did you mean "lm_eval/frobnicate"?)' in process(*words[:-1], "frobnicatee").err
    assert "lm_eval/frobnicate" in process("ls", "tasks", "lm_eval/frob*").out
    assert process("ls", "tasks", "frob*").out.endswith("0 tasks\n")


def test_models_with_commas_get_a_hint_to_use_spaces(cli: Cli) -> None:
    said = cli("run", "--models", "dummy,ngram", "--tasks", "demo_cloze")
    assert said.code == 2
    assert "Separate several models by spaces: --models dummy ngram" in said.err
