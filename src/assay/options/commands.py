"""A command as a value, and the rows that several commands share: models, tasks, store, output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assay.options.option import REPEAT, SWITCH, VALUE, WORDS, Option, split_names
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
)

TEST, POWER, MISSING, COMPARED = "test", "enough documents?", "missing answers", "what is compared"
COLUMNS = "what the file holds"
SERVER = "server"
# Headings in the order of help texts.
GROUPS = (
    *(
        "",
        RUNS,
        MODEL,
        SERVER,
        COMPARED,
        COLUMNS,
        TASKS,
        DOCUMENTS,
        PROMPTS,
        SCORING,
        TEST,
        POWER,
        VARIANCE,
        STOPPING,
        TEXTS,
    ),
    *(TRAINING, MISSING, OUTPUT),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line.

    Attributes:
        about: what it does, in a sentence or two.
        options: its options by attribute name of the parsed arguments.
        shown: names of those that `--help` lists; empty for all that are not hidden. `--help_all` lists the rest.
        refused: options that other commands or tools have and this one lacks → what to do instead.
        without_effect: options of other tools that are accepted and ignored → why they are not needed.
    """

    about: str
    options: Mapping[str, Option]
    shown: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)

    def listed(self, everything: bool) -> dict[str, Option]:
        """The options that a help text lists, by heading."""
        found = {name: option for name, option in self.options.items() if not option.is_hidden}
        chosen = found if everything or not self.shown else {name: found[name] for name in self.shown}
        return dict(sorted(chosen.items(), key=lambda entry: GROUPS.index(entry[1].group)))

    @property
    def has_more(self) -> bool:
        """Whether `--help_all` lists more than `--help`."""
        return len(self.listed(True)) > len(self.listed(False))


MODEL_HELP = "name, ./DIR, file.gguf or Hub id"
TASK_NAMES = Option(
    "names, groups, tags, wildcards, files or text:PATH",
    TASKS,
    "TASK",
    short="-t",
    takes=WORDS,
    read=split_names,
    is_required=True,
)
ONE_MODEL = Option(MODEL_HELP, MODEL, "MODEL", details="see assay ls models", short="-M", takes=VALUE, is_required=True)
SEVERAL_MODELS = replace(
    ONE_MODEL,
    help=f"{MODEL_HELP}; may be several",
    details="see assay ls models; each may have arguments: hf:pretrained=DIR,revision=main|step1000",
    aliases=("--models",),
    takes=WORDS,
)
FAMILY = Option(
    "architecture of an hf model: decoder, encoder-decoder or encoder", MODEL, "NAME", "read from its config"
)
TRUSTED_PACKAGE = Option("installed package whose task code may run; may repeat", TASKS, "NAME", "none", takes=REPEAT)
STORE = Option("file of answers and runs", OUTPUT, "FILE", "your data folder")
RECORDED_RUN = Option("name of a run or its start, last, last~1; see assay ls runs", RUNS, "RUN", is_positional=True)
LOG_SAMPLES = Option("also write the answers to every document", OUTPUT, short="-s", takes=SWITCH)
OUTPUT_PATH = Option("folder for result files, or a .json file", OUTPUT, "PATH", "none", short="-o")


def output_option(name: str, *suffixes: str) -> Option:
    """The option `--output_path` of a report: one file by its suffix, or a folder for all files."""
    files = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
    return replace(OUTPUT_PATH, help=f"file that ends in {files}, or folder for the {name} in each format")


def format_option(*choices: str) -> Option:
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
