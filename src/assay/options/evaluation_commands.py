"""The commands that evaluate or train models: run, plan, matrix, finetune, methods, show.

Their options are the settings of a run, except those without meaning in the command, and options of the command itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from assay.core.training import METHODS
from assay.options.commands import (
    COMPARED,
    FAMILY,
    LOG_SAMPLES,
    MODEL_HELP,
    ONE_MODEL,
    OUTPUT_PATH,
    POWER,
    SEVERAL_MODELS,
    STORE,
    TASK_NAMES,
    TRUSTED_PACKAGE,
    Command,
    format_option,
    output_option,
)
from assay.options.option import OPTIONAL, SWITCH, WORDS, Option, read_count, read_natural, split_names
from assay.options.table import (
    OUTPUT,
    TASKS,
    TRAINING,
    setting_options,
    training_options,
)

# Options of lm-eval that have no effect here → why.
WITHOUT_EFFECT = {
    "use_cache": "answers are always stored, see --store",
    "cache_requests": "requests are built fast enough to need no cache",
    "check_integrity": "task files are checked whenever they are read",
    "show_config": "the whole configuration is in the result file",
    "verbosity": "use --debug for tracebacks",
    "max_batch_size": "batches are sized by memory",
    "trust_remote_code": "say trust_remote_code=true in --model_args for a model that needs it",
}
_SHORT = {"use_cache": "-c", "verbosity": "-v"}
_UPLOAD = "Assay sends results nowhere. Write the files with --output_path DIR --log_samples"
# Options of lm-eval that upload results → what to do instead.
ELSEWHERE = {
    "wandb_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "wandb_config_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "trackio_args": f'{_UPLOAD}; in Python, trackio.log(json.load(open(FILE))["results"]) with the results_….json',
    "hf_hub_log_args": f"{_UPLOAD}, then: hf upload OWNER/NAME DIR . --repo-type dataset",
}


def _settings(without: Iterable[str]) -> dict[str, Option]:
    """The options of a run, including those that exist on the command line only, except some."""
    rows = {name: option for name, option in setting_options().items() if not option.is_python_only}
    found = {**rows, "family": FAMILY, "trust_package": TRUSTED_PACKAGE}
    return {name: option for name, option in found.items() if name not in {*without}}


def _lm_eval_options() -> dict[str, Option]:
    """Options of lm-eval that scripts may contain and that are not needed here."""
    return {
        name: Option(reason, short=_SHORT.get(name, ""), takes=OPTIONAL, constant=True, is_hidden=True)
        for name, reason in WITHOUT_EFFECT.items()
    }


def _hidden(options: Mapping[str, Option]) -> dict[str, Option]:
    """Options that a command accepts and help texts leave out."""
    return {name: replace(option, is_hidden=True) for name, option in options.items()}


_EARLY_STOPPING = ("until_se", "until_decided", "reference")
_AXES = ("fewshot_seeds", "orders", "draws")
_TRAINED = ("finetune", "finetune_together")
_SAMPLES = ("samples", "sample", "sample_seed")
_TEXTS = ("window", "stride", "text_column", "domain_column")
_RUN_ONLY = ("predict_only", "bootstrap_iters")
_BUDGETS = ("budget", "token_budget")
_USUAL = (
    *("model", "model_args", "batch_size", "device"),
    *("tasks", "include_path"),
    *("limit", "sample"),
    *("num_fewshot", "apply_chat_template", "gen_kwargs"),
)


def _run() -> Command:
    figures = {
        "prompt_figure": Option(
            "file for the figure that assay plot RUN prompts draws", OUTPUT, "FILE", is_hidden=True
        ),
        "axes_figure": Option("file for the figure that assay plot RUN axes draws", OUTPUT, "FILE", is_hidden=True),
        "reliability_figure": Option(
            "file for the figure that assay plot RUN reliability draws", OUTPUT, "FILE", is_hidden=True
        ),
    }
    own = {
        "model": SEVERAL_MODELS,
        "tasks": TASK_NAMES,
        "config": Option(
            "YAML file with options",
            OUTPUT,
            "FILE",
            "none",
            details="the command line overrides it",
            short="-C",
        ),
        "output_path": OUTPUT_PATH,
        "log_samples": LOG_SAMPLES,
        "write_out": Option("print the first document of each task", OUTPUT, short="-w", takes=SWITCH),
        "audit": Option(
            "report how answers were extracted from generated text, and where rules disagree, for N documents or all",
            OUTPUT,
            "N",
            "off; 20 if N is not given",
            takes=OPTIONAL,
            constant="20",
            read=read_count("--audit", -1),
        ),
        "store": STORE,
    }
    shown = (
        *_USUAL,
        *("style", "like", "metrics", "seed", "until_se", "budget", "finetune"),
        *("output_path", "log_samples", "write_out", "config", "store"),
    )
    accepted = {**_hidden(training_options()), **figures, **_lm_eval_options()}
    about = "Evaluates one or more models on tasks. Repeating the command continues an interrupted run."
    return Command(about, {**own, **_settings(()), **accepted}, shown, ELSEWHERE, WITHOUT_EFFECT)


def _plan() -> Command:
    own = {
        "model": ONE_MODEL,
        "tasks": TASK_NAMES,
        "detect": Option(
            "difference between two runs to detect: are the documents enough?", POWER, "D", "none", type=float
        ),
        "alpha": Option("significance level of the test", POWER, "A", type=float, initial=0.05),
        "discordance": Option(
            "fraction of documents that only one of the two runs gets right", POWER, "F", "0.5", type=float
        ),
        "sd": Option(
            "standard deviation of the documents' scores, for scores other than 0 and 1",
            POWER,
            "SD",
            "0.5",
            type=float,
        ),
        "correlation": Option("correlation of the two runs' scores over documents", POWER, "R", "0", type=float),
        "format": format_option("text", "json"),
        "store": STORE,
    }
    without = (*_EARLY_STOPPING, *_TRAINED, *_RUN_ONLY)
    about = "Counts what a run would request, without running it. No weights are loaded."
    unknown = "How many documents are enough is known during a run only: assay run"
    refused = {**dict.fromkeys(_EARLY_STOPPING, unknown), **ELSEWHERE}
    shown = (*_USUAL, "style", "like", "metrics", "detect", "alpha", "format", "store")
    return Command(about, {**own, **_settings(without), **_lm_eval_options()}, shown, refused, WITHOUT_EFFECT)


def _matrix() -> Command:
    own = {
        "model": SEVERAL_MODELS,
        "tasks": TASK_NAMES,
        "metric": replace(
            setting_options()["metrics"],
            flag="--metrics",
            help="metric of each column",
            details="the first of these that a task reports; +NAME adds it to those of the tasks",
            default="the first that most models have",
            read=split_names,
        ),
        "output_path": output_option("matrix", ".md", ".csv", ".tex", ".json", ".html"),
        "format": format_option("text", "markdown", "csv", "latex", "json", "html"),
        "store": STORE,
    }
    without = ("metrics", *_EARLY_STOPPING, *_AXES, *_RUN_ONLY)
    about = (
        "Evaluates every model on every task and shows the scores side by side, with improvement over chance, win "
        "rates, ranks and correlations. Repeating the command continues an interrupted matrix."
    )
    shown = (*_USUAL, "style", "like", "metric", "seed", "finetune", "output_path", "format", "store")
    refused = {
        **dict.fromkeys(_EARLY_STOPPING, "Models are compared on the same documents: --sample N, or see assay run"),
        "predict_only": "See: assay run",
    }
    return Command(about, {**own, **_settings(without), **_hidden(training_options())}, shown, refused)


def _finetune() -> Command:
    own = {
        "model": ONE_MODEL,
        "tasks": TASK_NAMES,
        "method": Option(
            f"{', '.join(METHODS[:-1])} or {METHODS[-1]}, or a YAML file with these options",
            TRAINING,
            "METHOD|FILE",
            initial=METHODS[0],
        ),
        **training_options(),
        "name": Option("name of the new model", OUTPUT, "NAME", "made from parent, tasks and method"),
        "folder": Option("folder of the new model", OUTPUT, "DIR", "models, beside the store"),
        "store": STORE,
    }
    refused = {
        **dict.fromkeys(("limit", *_SAMPLES), "Take fewer training examples with --train_limit"),
        **dict.fromkeys(("num_fewshot", "fewshot_sampler"), "Training examples have no few-shot examples before them"),
        **dict.fromkeys(("metrics", "scoring", "cluster"), "See --validation_metric"),
        **dict.fromkeys(("gen_kwargs", *_TEXTS), "It changes evaluation, not training: assay run"),
    }
    without = (*refused, *_EARLY_STOPPING, *_AXES, *_RUN_ONLY, *_TRAINED, *_BUDGETS)
    shown = (
        *("model", "model_args", "batch_size", "device", "tasks", "include_path", "method", "epochs", "learning_rate"),
        *("train_batch_size", "train_seed", "train_limit", "validation_metric", "patience", "lora_rank"),
        *("name", "folder", "store"),
    )
    about = (
        "Trains a model on the training documents of tasks. The result is a new model with a name, which --model takes "
        "in every command. Repeating the command continues an interrupted training."
    )
    return Command(about, {**own, **_settings(without)}, shown, refused)


def _study_output() -> dict[str, Option]:
    """The output options of a methods study."""
    return {
        "output_path": replace(OUTPUT_PATH, help="file that ends in .json or .md, or folder for both and figures"),
        "format": format_option("text", "markdown", "json"),
        "figures": Option(
            "format of the figures below --output_path: svg, png or none",
            OUTPUT,
            "NAME",
            initial="svg",
            choices=("svg", "png", "none"),
        ),
        "panels": Option(
            "methods in the figures of lengths and positions",
            OUTPUT,
            "METHOD",
            takes=WORDS,
            read=split_names,
            initial=["raw", "byte"],
        ),
        "details": Option("print all tables: changed documents, length bias and position bias", OUTPUT, takes=SWITCH),
        "changes": Option("changed documents to list", OUTPUT, "N", read=read_natural("--changes"), initial=10),
        "all_changes": Option("list every changed document", OUTPUT, takes=SWITCH),
    }


def _methods() -> Command:
    own = {
        "model": SEVERAL_MODELS,
        "tasks": replace(TASK_NAMES, help="multiple-choice tasks and groups", aliases=("--task",)),
        "styles": Option(
            "prompt styles: own, cloze, letters, …; see assay ls styles",
            COMPARED,
            "NAME",
            "own",
            takes=WORDS,
            read=split_names,
        ),
        "methods": Option(
            "scoring methods, or all; see assay ls methods",
            COMPARED,
            "NAME",
            takes=WORDS,
            read=split_names,
            initial=["all"],
        ),
        "phrase": Option("prompt without the question for mutual-phrase", COMPARED, "TEXT", initial="Answer:"),
        "like": replace(
            setting_options()["like"], help="lm-eval: repeat its defects that change scores", choices=("lm-eval",)
        ),
        **_study_output(),
        "store": STORE,
    }
    refused = {
        "style": "Name the styles to compare with --styles",
        **dict.fromkeys(("metrics", "scoring"), "Name the methods to compare with --methods"),
        **dict.fromkeys(("prompts", "original_task"), "See: assay run --prompts"),
        **dict.fromkeys(_TEXTS, "Methods score choices, and texts have none: assay run"),
        **dict.fromkeys(_EARLY_STOPPING, "Methods are compared on the same documents: --sample N, or see assay run"),
    }
    without = (*refused, *_AXES, *_RUN_ONLY, *_TRAINED, "like")
    shown = (*_USUAL, "styles", "methods", "output_path", "format", "figures", "details", "store")
    about = (
        "Compares the methods of scoring multiple-choice answers on the same answers of a model: accuracy, documents "
        "that change, ranks of models, and bias by length and position."
    )
    return Command(about, {**own, **_settings(without)}, shown, refused)


def _show() -> Command:
    own = {
        "task": Option("task, group or file", TASKS, "TASK", is_positional=True),
        "doc": Option("index of the document", TASKS, "N", type=int, initial=0),
        "card": Option("show the task's card instead: source, chance level, published numbers", TASKS, takes=SWITCH),
        "model": replace(ONE_MODEL, help=f"{MODEL_HELP}, to show its tokens", default="none", is_required=False),
        "store": STORE,
    }
    without = (*_EARLY_STOPPING, *_AXES, *_RUN_ONLY, *_TRAINED, *_BUDGETS)
    shown = (
        *("task", "doc", "card", "model", "model_args", "include_path", "limit", "num_fewshot", "fewshot_sampler"),
        *("apply_chat_template", "system_instruction", "style", "like", "prompts", "seed", "store"),
    )
    about = "Shows the prompt, answers and target of a document, with --model also its tokens; or a task's card."
    return Command(about, {**own, **_settings(without)}, shown)


def _probe() -> Command:
    own = {
        "model": replace(
            ONE_MODEL, help="openai, openai-chat, vllm, sglang, llamacpp, tgi, ollama, anthropic or gemini"
        ),
        "model_args": replace(setting_options()["model_args"], help="such as model=NAME,base_url=URL"),
        "format": format_option("text", "json"),
    }
    about = (
        "Asks the server behind a model what it can do, with about thirty short requests: which forms of "
        "log-likelihoods, generation and multiple choice work, and why the others do not. Nothing is stored."
    )
    return Command(about, own)


MAKERS = {
    "probe": _probe,
    "run": _run,
    "plan": _plan,
    "matrix": _matrix,
    "finetune": _finetune,
    "methods": _methods,
    "show": _show,
}
