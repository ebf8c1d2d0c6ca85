"""The commands on recorded runs and files: rescore, compare, explain and plot; check, data, store, task, ls."""

from __future__ import annotations

from dataclasses import replace

from assay.options.commands import (
    COLUMNS,
    COMPARED,
    LOG_SAMPLES,
    MISSING,
    OUTPUT_PATH,
    RECORDED_RUN,
    STORE,
    TASK_NAMES,
    TEST,
    TRUSTED_PACKAGE,
    Command,
    format_option,
    output_option,
)
from assay.options.option import ANY, OPTIONAL, SWITCH, WORDS, Option, read_count, read_margin, split_names
from assay.options.table import (
    OUTPUT,
    RUNS,
    TASKS,
    setting_options,
)
from assay.studies.paired.paired_values import ALL_FLIPS, AXES, CORRECTIONS, TESTS

FIGURE_KINDS = ("reliability", "axes", "prompts", "lengths", "positions")


def _rescore() -> Command:
    rows = setting_options()
    own = {
        "run": RECORDED_RUN,
        "metrics": replace(rows["metrics"], default="those of the run"),
        "scoring": replace(rows["scoring"], default="that of the run"),
        "bootstrap_iters": replace(rows["bootstrap_iters"], default="as many as the run", fills=()),
        "complete": Option("request answers that the store lacks from the run's model", MISSING, takes=SWITCH),
        "model_args": replace(
            rows["model_args"],
            help="arguments of the model in place of recorded ones (with --complete)",
            group=MISSING,
            default="as recorded",
        ),
        "output_path": OUTPUT_PATH,
        "log_samples": LOG_SAMPLES,
        "format": format_option("text", "json"),
        "store": STORE,
    }
    return Command("Scores the answers of a recorded run another way. The result is a new run.", own)


def _test_rows() -> dict[str, Option]:
    """The options of paired tests."""
    return {
        "test": Option(
            f"paired test: {', '.join(TESTS)}",
            TEST,
            "NAME",
            "exact for scores of 0 and 1, permutation for others",
            choices=TESTS,
        ),
        "alpha": Option("significance level of the tests", TEST, "A", type=float, initial=0.05),
        "correction": Option(
            f"correction for multiple testing: {' or '.join(CORRECTIONS)}",
            TEST,
            "NAME",
            initial=CORRECTIONS[0],
            choices=CORRECTIONS,
        ),
        "margin": Option(
            "largest difference that does not matter: 0.02 is 2 points",
            TEST,
            "M",
            "none",
            read=read_margin("--margin"),
        ),
        "detect": Option(
            "difference to detect: reports the number of documents it needs",
            TEST,
            "D",
            "the observed difference",
            type=float,
            aliases=("--effect",),
        ),
        "seed": Option("seed of sign flips and bootstrap resamples", TEST, "N", type=int, initial=0),
        "fail_if_worse": Option(
            "exit with 4 if a run is worse than the baseline; with M, if it is not shown to be at most M worse",
            TEST,
            "M",
            "off",
            takes=OPTIONAL,
            constant=0.0,
            read=read_margin("--fail_if_worse"),
        ),
    }


def _compare() -> Command:
    own = {
        "runs": replace(RECORDED_RUN, help=f"{RECORDED_RUN.help}; RUN@TASK for one task of it", takes=WORDS),
        "tasks": replace(
            TASK_NAMES,
            help="only these tasks; demo_* is a pattern",
            default="all that the runs share",
            is_required=False,
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
        **_test_rows(),
        "flips": Option(
            "documents to list whose scores differ, N in each direction, or all",
            OUTPUT,
            "N",
            read=read_count("--flips", ALL_FLIPS),
            initial=0,
        ),
        "predictions": Option(
            "report per-document agreement of the predicted choices (reopens the runs)", OUTPUT, takes=SWITCH
        ),
        "format": format_option("text", "markdown", "json", "junit"),
        "output_path": output_option("comparison", ".txt", ".md", ".json", ".xml"),
        "store": STORE,
    }
    return Command("Compares recorded runs document by document. No model is loaded.", own)


def _explain() -> Command:
    own = {
        "first": replace(RECORDED_RUN, metavar="RUN_A", help=f"{RECORDED_RUN.help}; with --reference also a task"),
        "second": replace(RECORDED_RUN, metavar="RUN_B", help="the other run", default="none", takes=OPTIONAL),
        "reference": Option(
            "compare with a published number instead: a model or a source; without NAME, list all of the task",
            COMPARED,
            "NAME",
            "none",
            takes=OPTIONAL,
            constant="",
        ),
        "tasks": replace(
            TASK_NAMES, help="a task of each run, or one for both", default="all that both have", is_required=False
        ),
        "metrics": replace(
            setting_options()["metrics"],
            help="a metric of each run, or one for both",
            default="the first of each",
            read=split_names,
        ),
        "tokens": Option("open the models' tokenizers and compare tokens, too", OUTPUT, takes=SWITCH),
        "include_path": replace(setting_options()["include_path"], help="folder with more task files (--reference)"),
        "format": format_option("text", "markdown", "json"),
        "output_path": output_option("explanation", ".txt", ".md", ".json"),
        "store": STORE,
    }
    about = (
        "Explains why two recorded runs have different scores, or why a run or task may differ from a published score."
    )
    return Command(f"{about} No weights are loaded.", own)


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
    path = replace(
        OUTPUT_PATH, help="file that ends in .svg or .png, or folder for RUN_KIND.svg", default="the current folder"
    )
    about = "Draws a figure of a recorded run. No model is loaded."
    return Command(about, {"run": RECORDED_RUN, "kind": kinds, "output_path": path, "store": STORE})


def _check() -> Command:
    own = {
        "paths": Option(
            "task files, or folders of them; with --contract names of tasks, too",
            TASKS,
            "PATH",
            takes=WORDS,
            is_positional=True,
        ),
        "contract": Option(
            "load the data and check what must hold for the tasks whatever the model: right answers score best, "
            "prompts give nothing away, …",
            TASKS,
            takes=SWITCH,
        ),
        "rows": Option(
            "documents per task, a random sample (with --contract)",
            TASKS,
            "N",
            read=read_count("--rows", None),
            initial=200,
        ),
        "own_only": Option("leave out styles and classifier heads (with --contract)", TASKS, takes=SWITCH),
        "include_path": setting_options()["include_path"],
        "num_fewshot": replace(setting_options()["num_fewshot"], group=TASKS),
        "doc": Option(
            "data file: names in templates must be columns of its first row", TASKS, "FILE", "columns are not checked"
        ),
        "data": replace(
            setting_options()["data"],
            help="folder of datasets: also read the data of every task and build its first document",
            default="data is not read",
        ),
        "allow_code": replace(
            setting_options()["allow_code"], help="also build every task and group, running their Python code"
        ),
        "trust_package": replace(
            TRUSTED_PACKAGE, help="like --allow_code, for this installed package only; may repeat"
        ),
        "format": format_option("text", "json"),
    }
    about = "Validates task files without loading data, unless --data or --contract is given: all faults at once."
    return Command(about, own)


def _data() -> Command:
    rows = setting_options()
    own = {
        "what": Option(
            "get: fetch the datasets of --tasks; ls: list a folder of them; check: compare its files with their hashes",
            "",
            "get|ls|check",
            is_positional=True,
            choices=("get", "ls", "check"),
        ),
        "folder": Option("folder to list or check", "", "DIR", "that of --to", takes=OPTIONAL, is_positional=True),
        "tasks": replace(TASK_NAMES, help="tasks to fetch the datasets of (get)", default="none", is_required=False),
        "include_path": rows["include_path"],
        "allow_code": rows["allow_code"],
        "trust_package": TRUSTED_PACKAGE,
        "to": Option("folder of the datasets", OUTPUT, "DIR", "the variable ASSAY_DATA"),
        "format": format_option("text", "json"),
    }
    about = (
        "Fetches the datasets of tasks into a folder, on a machine with network; --data DIR of other commands reads "
        "them from there. Repeating the command fetches only what is missing or damaged."
    )
    return Command(about, own)


def _task() -> Command:
    from assay.tasks.scaffold.values import KINDS  # other commands do not read templates

    def column(text: str) -> Option:
        return Option(text, COLUMNS, "COL", "guessed")

    own = {
        "what": Option("new: make a task file from a data file", "", "new", is_positional=True, choices=("new",)),
        "file": Option("data file: jsonl, json, csv, tsv, parquet or txt", "", "FILE", is_positional=True),
        "train": Option("data file for few-shot examples and training", COLUMNS, "FILE", "none"),
        "kind": Option(f"kind of the format: {', '.join(KINDS)}", COLUMNS, "KIND", "guessed", choices=KINDS),
        "question": column("question; any column may also be a template: '{{a}} {{b}}'"),
        "context": column("text to read before the question"),
        "choices": Option("column of lists, or a column for each choice: A,B,C,D", COLUMNS, "COL[,COL…]", "guessed"),
        "answer": replace(column("right answer: index, letter, text or class"), aliases=("--answers",)),
        "text": column("text to classify, or whose perplexity is measured"),
        "pair": column("second text of a pair to classify"),
        "labels": Option(
            "names of the classes, in the order of their numbers",
            COLUMNS,
            "NAME[,NAME…]",
            "guessed",
            read=lambda text: tuple(split_names(text)),
        ),
        "source": column("text to transform"),
        "target": column("text that is wanted"),
        "rows": Option(
            "documents for the contract check, a random sample",
            TASKS,
            "N",
            read=read_count("--rows", None),
            initial=200,
        ),
        "output_path": replace(
            OUTPUT_PATH, help="the task file, which ends in .yaml, or its folder", default="beside the data file"
        ),
        "overwrite": Option("replace a task file that exists", OUTPUT, takes=SWITCH),
    }
    about = (
        "Makes a task file from a data file: guesses the format and the columns, writes the file, shows three prompts "
        "and checks its contract. See docs/first-benchmark.md."
    )
    return Command(about, own)


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
        "store": STORE,
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
        "text": Option("only rows that contain these words", "", "WORD", "all rows", takes=ANY, is_positional=True),
        "include_path": setting_options()["include_path"],
        "data": replace(
            setting_options()["data"],
            help="only tasks that can be run with the datasets of this folder",
            default="the variable ASSAY_DATA, else all tasks",
        ),
        "tag": Option("only tasks with this tag", TASKS, "TAG", "all"),
        "output_type": Option("only tasks of this type, such as multiple_choice", TASKS, "TYPE", "all"),
        "long": Option("every task with its type, tags and file; groups with all members", OUTPUT, takes=SWITCH),
        "format": replace(
            format_option("text", "json", "names"), details='names alone can be pasted: --tasks "$(assay ls …)"'
        ),
        "store": STORE,
    }
    return Command("Lists tasks, models, metrics, runs and more.", own)


MAKERS = {
    "rescore": _rescore,
    "compare": _compare,
    "explain": _explain,
    "plot": _plot,
    "check": _check,
    "data": _data,
    "store": _store,
    "task": _task,
    "ls": _ls,
}
