"""The commands: what each does, and which options it has, in the order of its help text.

Options of a run come from the table; those of one command only are rows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from assay.core.comparisons import ALL_FLIPS, AXES, CORRECTIONS, TESTS
from assay.core.training import METHODS
from assay.options.option import OPTIONAL, REPEAT, SWITCH, VALUE, WORDS, Option
from assay.options.table import (
    DOCUMENTS,
    MODEL,
    OUTPUT,
    PROMPTS,
    RUNS,
    SCORING,
    STOPPING,
    TASKS,
    TEXTS,
    TRAINING,
    VARIANCE,
    setting_options,
)
from assay.options.training import training_options
from assay.options.values import read_count, read_margin, read_natural, split_names

# Options of lm-eval that need nothing here → why.
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
_UPLOAD = "Write the files with --output_path DIR --log_samples"
# Options of lm-eval that send results elsewhere → what to do instead.
ELSEWHERE = {
    "wandb_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "wandb_config_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "trackio_args": f'{_UPLOAD}; in Python, trackio.log(json.load(open(FILE))["results"]) with the results_….json',
    "hf_hub_log_args": f"{_UPLOAD}, then: hf upload OWNER/NAME DIR . --repo-type dataset",
}
FIGURE_KINDS = ("reliability", "axes", "prompts", "lengths", "positions")
_TEST, _POWER, _MISSING, _COMPARED = "test", "enough documents?", "missing answers", "what is compared"
# Headings in the order of help texts.
GROUPS = (
    *("", RUNS, MODEL, _COMPARED, TASKS, DOCUMENTS, PROMPTS, SCORING, _TEST, _POWER, VARIANCE, STOPPING, TEXTS),
    *(TRAINING, _MISSING, OUTPUT),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line.

    Attributes:
        about: what it does, in a sentence or two.
        options: its options by the names that the program knows them by.
        shown: names of those that `--help` lists; empty for all that are not hidden. `--help_all` lists the rest.
        refused: options of other commands that have no meaning here → what to do instead.
    """

    about: str
    options: Mapping[str, Option]
    shown: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def listed(self, everything: bool) -> dict[str, Option]:
        """The options that a help text lists, by heading."""
        found = {name: option for name, option in self.options.items() if not option.is_hidden}
        chosen = found if everything or not self.shown else {name: found[name] for name in self.shown}
        return dict(sorted(chosen.items(), key=lambda entry: GROUPS.index(entry[1].group)))

    @property
    def has_more(self) -> bool:
        """Whether `--help_all` lists more than `--help`."""
        return len(self.listed(True)) > len(self.listed(False))


_MODEL_HELP = "name, ./DIR, file.gguf or Hub id"
_TASKS = Option(
    "names, groups, tags, wildcards, files or text:PATH",
    TASKS,
    "TASK",
    short="-t",
    takes=WORDS,
    read=split_names,
    is_required=True,
)
_ONE_MODEL = Option(
    _MODEL_HELP, MODEL, "MODEL", details="see assay ls models", short="-M", takes=VALUE, is_required=True
)
_MODELS = replace(
    _ONE_MODEL,
    help=f"{_MODEL_HELP}; may be several",
    details="see assay ls models; each may have arguments: hf:pretrained=DIR,revision=main|step1000",
    aliases=("--models",),
    takes=WORDS,
)
_FAMILY = Option(
    "architecture of an hf model: decoder, encoder-decoder or encoder", MODEL, "NAME", "read from its config"
)
_TRUST = Option("installed package whose task code may run; may repeat", TASKS, "NAME", "none", takes=REPEAT)
_STORE = Option("file of answers and runs", OUTPUT, "FILE", "your data folder")
_RUN = Option("name of a run or its start, last, last~1; see assay ls runs", RUNS, "RUN", is_positional=True)
_LOG_SAMPLES = Option("also write the answers to every document", OUTPUT, short="-s", takes=SWITCH)
_FOLDER = Option("folder for result files", OUTPUT, "DIR", "none", short="-o")
_FILE = Option("file to write instead of printing", OUTPUT, "FILE", "print", short="-o")


def _format(*choices: str) -> Option:
    """The option `--format` with these values; the older flags `--json` and `--markdown` are accepted for it."""
    flags = {f"--{name}": name for name in choices if name in ("json", "markdown")}
    return Option(
        f"output format: {', '.join(choices)}",
        OUTPUT,
        "NAME",
        initial=choices[0],
        choices=choices,
        synonyms={"table": "text"},
        constants=flags,
    )


def _hidden(options: Mapping[str, Option]) -> dict[str, Option]:
    return {name: replace(option, is_hidden=True) for name, option in options.items()}


def _settings(without: Iterable[str]) -> dict[str, Option]:
    """The options of a run, with those that belong to them on the command line only, without some."""
    rows = {name: option for name, option in setting_options().items() if not option.is_python_only}
    found = {**rows, "family": _FAMILY, "trust_package": _TRUST}
    return {name: option for name, option in found.items() if name not in {*without}}


def _lm_eval_options() -> dict[str, Option]:
    """Options of lm-eval that scripts may carry along."""
    silent = {
        name: Option(reason, short=_SHORT.get(name, ""), takes=OPTIONAL, constant=True, is_hidden=True)
        for name, reason in WITHOUT_EFFECT.items()
    }
    return {**silent, **{name: Option(text, takes="any", is_hidden=True) for name, text in ELSEWHERE.items()}}


_EARLY_STOPPING = ("until_se", "until_decided", "reference")
_AXES = ("fewshot_seeds", "orders", "draws")
_TRAINED = ("finetune", "finetune_together")
_TEXTS = ("window", "stride", "text_column", "domain_column")
_RUN_ONLY = ("predict_only", "bootstrap_iters")
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
        "model": _MODELS,
        "tasks": _TASKS,
        "config": Option(
            "YAML file with options",
            OUTPUT,
            "FILE",
            "none",
            details="the command line overrides it",
            short="-C",
        ),
        "output_path": _FOLDER,
        "log_samples": _LOG_SAMPLES,
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
        "store": _STORE,
    }
    shown = (
        *_USUAL,
        *("style", "like", "metrics", "seed", "until_se", "finetune"),
        *("output_path", "log_samples", "write_out", "config", "store"),
    )
    hidden = {**_hidden(training_options()), **figures, **_lm_eval_options()}
    about = "Evaluates one or more models on tasks. Repeating the command continues an interrupted run."
    return Command(about, {**own, **_settings(()), **hidden}, shown)


def _plan() -> Command:
    own = {
        "model": _ONE_MODEL,
        "tasks": _TASKS,
        "detect": Option(
            "difference between two runs to detect: are the documents enough?", _POWER, "D", "none", type=float
        ),
        "alpha": Option("significance level of the test", _POWER, "A", type=float, initial=0.05),
        "discordance": Option(
            "fraction of documents that only one of the two runs gets right", _POWER, "F", "0.5", type=float
        ),
        "sd": Option(
            "standard deviation of the documents' scores, for scores other than 0 and 1",
            _POWER,
            "SD",
            "0.5",
            type=float,
        ),
        "correlation": Option("correlation of the two runs' scores over documents", _POWER, "R", "0", type=float),
        "format": _format("text", "json"),
        "store": _STORE,
    }
    without = (*_EARLY_STOPPING, *_TRAINED, *_RUN_ONLY)
    about = "Counts what a run would request, without running it. No weights are loaded."
    refused = dict.fromkeys(_EARLY_STOPPING, "How many documents are enough is known during a run only: assay run")
    shown = (*_USUAL, "style", "like", "metrics", "detect", "alpha", "format", "store")
    return Command(about, {**own, **_settings(without), **_lm_eval_options()}, shown, refused)


def _matrix() -> Command:
    formats = _format("text", "markdown", "csv", "latex", "json", "html")
    own = {
        "model": _MODELS,
        "tasks": _TASKS,
        "metric": replace(
            setting_options()["metrics"],
            flag="--metrics",
            help="metric of each column",
            details="the first of these that a task reports; +NAME adds it to those of the tasks",
            default="the first that most models have",
            read=split_names,
        ),
        "output_path": Option(
            "folder for matrix.md, .csv, .tex, .json and .html, or one such file", OUTPUT, "PATH", "none", short="-o"
        ),
        "format": replace(formats, constants={}),
        "store": _STORE,
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
        "model": _ONE_MODEL,
        "tasks": _TASKS,
        "method": Option(
            f"{', '.join(METHODS[:-1])} or {METHODS[-1]}, or a YAML file with these options",
            TRAINING,
            "METHOD|FILE",
            initial=METHODS[0],
        ),
        **training_options(),
        "name": Option("name of the new model", OUTPUT, "NAME", "made from parent, tasks and method"),
        "folder": Option("folder of the new model", OUTPUT, "DIR", "models, beside the store"),
        "store": _STORE,
    }
    refused = {
        **dict.fromkeys(("limit", "samples", "sample"), "Take fewer training examples with --train_limit"),
        "num_fewshot": "Training examples have no few-shot examples before them",
        **dict.fromkeys(("metrics", "scoring"), "See --validation_metric"),
        "gen_kwargs": "It acts when the model generates: assay run",
    }
    without = (*refused, *_EARLY_STOPPING, *_AXES, *_RUN_ONLY, *_TRAINED, "sample_seed", "cluster", "fewshot_sampler")
    shown = (
        *("model", "model_args", "batch_size", "device", "tasks", "include_path", "method", "epochs", "learning_rate"),
        *("train_batch_size", "train_seed", "train_limit", "validation_metric", "patience", "lora_rank"),
        *("name", "folder", "store"),
    )
    about = (
        "Trains a model on the training documents of tasks. The result is a new model with a name, which --model takes "
        "in every command. Repeating the command continues an interrupted training."
    )
    return Command(about, {**own, **_settings((*without, *_TEXTS, "seed"))}, shown, refused)


def _methods() -> Command:
    own = {
        "model": _MODELS,
        "tasks": replace(_TASKS, help="multiple-choice tasks and groups", aliases=("--task",)),
        "styles": Option(
            "prompt styles: own, cloze, letters, …; see assay ls styles",
            _COMPARED,
            "NAME",
            "own",
            takes=WORDS,
            read=split_names,
        ),
        "methods": Option(
            "scoring methods, or all; see assay ls methods",
            _COMPARED,
            "NAME",
            takes=WORDS,
            read=split_names,
            initial=["all"],
        ),
        "phrase": Option("prompt without the question for mutual-phrase", _COMPARED, "TEXT", initial="Answer:"),
        "like": replace(
            setting_options()["like"], help="lm-eval: repeat its defects that change scores", choices=("lm-eval",)
        ),
        "output_path": Option(
            "folder for study.json, study.md and figures", OUTPUT, "DIR", "none are written", short="-o"
        ),
        "format": _format("text", "markdown", "json"),
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
        "store": _STORE,
    }
    refused = {
        "style": "Name the styles to compare with --styles",
        **dict.fromkeys(("metrics", "scoring"), "Name the methods to compare with --methods"),
        "prompts": "See: assay run --prompts",
        **dict.fromkeys(_EARLY_STOPPING, "Methods are compared on the same documents: --sample N, or see assay run"),
    }
    without = (*refused, *_AXES, *_RUN_ONLY, *_TRAINED, *_TEXTS, "original_task", "gen_kwargs", "like")
    usual = tuple(name for name in _USUAL if name != "gen_kwargs")
    shown = (*usual, "styles", "methods", "output_path", "format", "figures", "details", "store")
    about = (
        "Compares the methods of scoring multiple-choice answers on the same answers of a model: accuracy, documents "
        "that change, ranks of models, and bias by length and position."
    )
    return Command(about, {**own, **_settings(without)}, shown, refused)


def _rescore() -> Command:
    rows = setting_options()
    own = {
        "run": _RUN,
        "metrics": replace(rows["metrics"], default="those of the run"),
        "scoring": replace(rows["scoring"], default="that of the run"),
        "bootstrap_iters": replace(rows["bootstrap_iters"], default="as many as the run", fills=()),
        "complete": Option("request answers that the store lacks from the run's model", _MISSING, takes=SWITCH),
        "model_args": replace(
            rows["model_args"],
            help="arguments of the model in place of recorded ones (with --complete)",
            group=_MISSING,
            default="as recorded",
        ),
        "output_path": _FOLDER,
        "log_samples": _LOG_SAMPLES,
        "format": _format("text", "json"),
        "store": _STORE,
    }
    return Command("Scores the answers of a recorded run another way. The result is a new run.", own)


def _compare() -> Command:
    own = {
        "runs": replace(_RUN, help=f"{_RUN.help}; RUN@TASK for one task of it", takes=WORDS),
        "tasks": replace(
            _TASKS, help="only these tasks; demo_* is a pattern", default="all that the runs share", is_required=False
        ),
        "metrics": replace(
            setting_options()["metrics"],
            help="metrics to compare: NAME, NAME,FILTER or all",
            default="the first that a task reports",
            read=None,
        ),
        "baseline": Option("run that the others are compared with", RUNS, "RUN", "every pair of runs"),
        "across": Option(
            f"what may differ between the runs: {', '.join(AXES)}",
            RUNS,
            "AXIS",
            takes=WORDS,
            read=split_names,
            initial=["model"],
        ),
        "force": Option("compare runs that are not comparable; the output says what differs", RUNS, takes=SWITCH),
        "test": Option(
            f"paired test: {', '.join(TESTS)}",
            _TEST,
            "NAME",
            "exact for scores of 0 and 1, permutation for others",
            choices=TESTS,
        ),
        "alpha": Option("significance level of the tests", _TEST, "A", type=float, initial=0.05),
        "correction": Option(
            f"correction for multiple testing: {' or '.join(CORRECTIONS)}",
            _TEST,
            "NAME",
            initial=CORRECTIONS[0],
            choices=CORRECTIONS,
        ),
        "margin": Option(
            "largest difference that does not matter: 0.02 is 2 points",
            _TEST,
            "M",
            "none",
            read=read_margin("--margin"),
        ),
        "detect": Option(
            "difference to detect: reports the number of documents it needs",
            _TEST,
            "D",
            "the observed difference",
            type=float,
            aliases=("--effect",),
        ),
        "seed": Option("seed of sign flips and bootstrap resamples", _TEST, "N", type=int, initial=0),
        "fail_if_worse": Option(
            "exit with 4 if a run is worse than the baseline; with M, if it is not shown to be at most M worse",
            _TEST,
            "M",
            "off",
            takes=OPTIONAL,
            constant=0.0,
            read=read_margin("--fail_if_worse"),
        ),
        "flips": Option(
            "documents to list whose scores differ, N in each direction, or all",
            OUTPUT,
            "N",
            read=read_count("--flips", ALL_FLIPS),
            initial=0,
        ),
        "picks": Option(
            "report per-document agreement of the predicted choices (reopens the runs)", OUTPUT, takes=SWITCH
        ),
        "format": replace(_format("text", "markdown", "json", "junit"), constants={}),
        "output_path": _FILE,
        "store": _STORE,
    }
    return Command("Compares recorded runs document by document. No model is loaded.", own)


def _explain() -> Command:
    own = {
        "first": replace(_RUN, metavar="RUN_A"),
        "second": replace(_RUN, metavar="RUN_B", help="the other run"),
        "tasks": replace(
            _TASKS, help="a task of each run, or one for both", default="all that both have", is_required=False
        ),
        "metrics": replace(
            setting_options()["metrics"],
            help="a metric of each run, or one for both",
            default="the first of each",
            read=split_names,
        ),
        "tokens": Option("open the models' tokenizers and compare tokens, too", OUTPUT, takes=SWITCH),
        "format": _format("text", "markdown", "json"),
        "output_path": _FILE,
        "store": _STORE,
    }
    return Command("Explains why two recorded runs have different scores. No weights are loaded.", own)


def _plot() -> Command:
    kinds = Option(
        "reliability: accuracy against confidence; axes: scores over seeds, orders, draws and prompts with the sources "
        "of variance; prompts: scores of all prompts; lengths and positions: predictions by length and position of the "
        "choices",
        RUNS,
        "KIND",
        is_positional=True,
        choices=FIGURE_KINDS,
    )
    path = Option("file of the figure (.svg or .png)", OUTPUT, "FILE", "RUN_KIND.svg", short="-o")
    about = "Draws a figure of a recorded run. No model is loaded."
    return Command(about, {"run": _RUN, "kind": kinds, "output_path": path, "store": _STORE})


def _show() -> Command:
    own = {
        "task": Option("task, group or file", TASKS, "TASK", is_positional=True),
        "doc": Option("index of the document", TASKS, "N", type=int, initial=0),
        "model": replace(_ONE_MODEL, help=f"{_MODEL_HELP}, to show its tokens", default="none", is_required=False),
        "store": _STORE,
    }
    without = (*_EARLY_STOPPING, *_AXES, *_RUN_ONLY, *_TRAINED)
    shown = (
        *("task", "doc", "model", "model_args", "include_path", "limit", "num_fewshot", "fewshot_sampler"),
        *("apply_chat_template", "system_instruction", "style", "like", "prompts", "seed", "store"),
    )
    about = "Shows the prompt, answers and target of a document; with --model also its tokens."
    return Command(about, {**own, **_settings(without)}, shown)


def _check() -> Command:
    own = {
        "paths": Option("task files, or folders of them", TASKS, "PATH", takes=WORDS, is_positional=True),
        "doc": Option(
            "data file: names in templates must be columns of its first row", TASKS, "FILE", "columns are not checked"
        ),
        "allow_code": replace(
            setting_options()["allow_code"], help="also build every task and group, running their Python code"
        ),
        "trust_package": replace(_TRUST, help="like --allow_code, for this installed package only; may repeat"),
        "format": _format("text", "json"),
    }
    return Command("Validates task files without loading data: all faults at once.", own)


def _store() -> Command:
    own = {
        "what": Option(
            "check: read everything and compare checksums", "", "check", is_positional=True, choices=("check",)
        ),
        "repair": Option(
            "delete what cannot be read, so that the next run requests it again; keeps a copy of the old file",
            OUTPUT,
            takes=SWITCH,
        ),
        "store": _STORE,
    }
    return Command("Checks that every answer and run of a store can be read.", own)


LISTINGS = ("tasks", "groups", "tags", "models", "metrics", "filters", "styles", "methods", "profiles", "runs")


def _ls() -> Command:
    from assay.options.hints import LISTINGS as SYNONYMS

    own = {
        "what": Option(
            f"what to list: {', '.join(LISTINGS)}",
            "",
            "WHAT",
            is_positional=True,
            choices=LISTINGS,
            synonyms=SYNONYMS,
        ),
        "text": Option("only rows that contain this text", "", "TEXT", "all rows", takes=OPTIONAL, is_positional=True),
        "include_path": setting_options()["include_path"],
        "tag": Option("only tasks with this tag", TASKS, "TAG", "all"),
        "output_type": Option("only tasks of this type, such as multiple_choice", TASKS, "TYPE", "all"),
        "format": _format("text", "json"),
        "store": _STORE,
    }
    return Command("Lists tasks, models, metrics, runs and more.", own)


_MAKERS = {
    "run": _run,
    "plan": _plan,
    "matrix": _matrix,
    "finetune": _finetune,
    "methods": _methods,
    "rescore": _rescore,
    "compare": _compare,
    "explain": _explain,
    "plot": _plot,
    "show": _show,
    "check": _check,
    "store": _store,
    "ls": _ls,
}


@cache
def command(name: str) -> Command:
    """A command by name."""
    return _MAKERS[name]()
