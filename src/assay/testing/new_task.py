"""A new task from a data file: guesses its format, writes the task file, builds the first prompts, checks the contract.

import assay
made = assay.new_task("quiz.jsonl")
print(made.path, made.guess.kind, [str(finding) for finding in made.findings])
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.core.atomic_files import atomic_write
from assay.core.call_checks import checked
from assay.core.errors import Fault, OutputError
from assay.options.specification import make_spec
from assay.run.show import ShownDocument, show_documents
from assay.tasks.catalog import open_catalog
from assay.tasks.scaffold.data_file import check_rows, data_suffix, read_data_file, remarks_on, table_of
from assay.tasks.scaffold.guess import guess_format
from assay.tasks.scaffold.task_file import TaskText, task_text
from assay.tasks.scaffold.values import Guess, Table, Wishes
from assay.testing.benchmark_values import CheckedTask, Finding
from assay.testing.benchmarks import check_benchmarks

_SUFFIXES = (".yaml", ".yml")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task file that was made from a data file.

    Attributes:
        path: the task file.
        name: the task's name.
        table: the rows and columns of the data file.
        guess: the format, with its doubts.
        remarks: what else was noticed about the rows.
        checked: the outcome of the contract, for the task, its styles and heads.
    """

    path: Path
    name: str
    table: Table
    guess: Guess
    remarks: tuple[str, ...] = ()
    checked: tuple[CheckedTask, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """What violates the contract."""
        return [finding for task in self.checked for finding in task.findings]

    @property
    def is_sound(self) -> bool:
        """Whether the contract found no fault."""
        return not any(finding.is_fault for finding in self.findings)

    def prompts(self, most: int = _SHOWN) -> list[ShownDocument]:
        """The first documents, as a model sees them."""
        spec, wanted = make_spec("none", (str(self.path),)), [str(self.path)]
        size = min(most, len(self.table.rows))
        return [shown for index in range(size) for shown in show_documents(spec, wanted, index, None)]


@checked()
def new_task(
    data: str | Path,
    output_path: str | Path | None = None,
    *,
    train: str | Path | None = None,
    kind: str | None = None,
    question: str | None = None,
    context: str | None = None,
    choices: str | Sequence[str] | None = None,
    answer: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    labels: str | Sequence[str] = (),
    source: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
    rows: int | None = 200,
) -> NewTask:
    """Writes a task file for a data file and checks it. A column is a name or a template; what is None is guessed.

    Args:
        data: data file: jsonl, json, csv, tsv, parquet or txt.
        output_path: the task file, which ends in .yaml, or its folder; None for the data file's folder.
        train: data file for few-shot examples and training.
        kind: `multiple_choice`, `classification`, `span_qa`, `text_to_text` or `perplexity`.
        question: column of the question.
        context: column of the text to read before the question.
        choices: column of lists, or a column for each choice.
        answer: column of the right answer: an index, a letter, a text or a class.
        text: column of the text to classify, or whose perplexity is measured.
        pair: column of the second text of a pair.
        labels: names of the classes, in the order of their numbers.
        source: column of the text to transform.
        target: column of the text that is wanted.
        overwrite: whether to replace a task file that exists.
        rows: documents for the contract check; None for all.
    """
    wishes = Wishes(
        kind=kind,
        question=question,
        context=context,
        choices=choices if choices is None or isinstance(choices, str) else ",".join(choices),
        answer=answer,
        text=text,
        pair=pair,
        source=source,
        target=target,
        labels=_names(labels),
    )
    made = write_task(data, output_path, train=train, wishes=wishes, overwrite=overwrite)
    return check_new_task(made, rows)


def _names(labels: str | Sequence[str]) -> tuple[str, ...]:
    names = labels.split(",") if isinstance(labels, str) else labels
    return tuple(name.strip() for name in names if name.strip())


def write_task(
    data: str | Path,
    output_path: str | Path | None,
    *,
    train: str | Path | None = None,
    wishes: Wishes | None = None,
    overwrite: bool = False,
) -> NewTask:
    """Writes the task file without checking it; the arguments are those of `new_task`."""
    read = read_data_file(Path(data).expanduser())
    training = None if train is None else read_data_file(Path(train).expanduser(), "--train")
    path = _output(read.path, output_path)
    _check_output(path, overwrite)
    table = table_of(read, training)
    guess = guess_format(table, wishes or Wishes())
    check_rows(table, guess, training)
    name, renamed = _task_name(path)
    text = task_text(TaskText(name, path, read, guess, training))
    try:
        with atomic_write(path, is_private=False) as stream:
            stream.write(text)
    except OSError as error:
        found = f"could not be written: {error.strerror or error}"
        raise OutputError(Fault(str(path), found, "a folder that you may write to", "Say -o FILE.yaml")) from error
    remarks = (*renamed, *read.remarks, *remarks_on(table, guess, training))
    return NewTask(path, name, table, guess, remarks)


def check_new_task(made: NewTask, rows: int | None = 200) -> NewTask:
    """The task with the outcome of its contract.

    Args:
        made: the task.
        rows: number of documents; None for all.
    """
    found = check_benchmarks([str(made.path)], sample=rows)
    return NewTask(made.path, made.name, made.table, made.guess, made.remarks, tuple(found))


def _output(data: Path, given: str | Path | None) -> Path:
    stem = data.name.removesuffix(".gz").removesuffix(data_suffix(data)) or data.stem
    if given is None:
        return data.with_name(f"{_plain(stem)}.yaml")
    path = Path(given).expanduser()
    if path.is_file() and path.suffix not in _SUFFIXES:
        expected = "a name that ends in .yaml, or a folder"
        raise OutputError(Fault(f"-o {path}", "is a file that is not a task file", expected, "Say -o FILE.yaml"))
    return path if path.suffix in _SUFFIXES else path / f"{_plain(stem)}.yaml"


def _plain(stem: str) -> str:
    """A name for a task and its file: letters, digits and underscores."""
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "task"


def _check_output(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise OutputError(Fault(str(path), "is a folder", "the name of a task file", "Say -o FILE.yaml"))
    if path.exists() and not overwrite:
        advice = "Say --overwrite to replace it, or -o FILE.yaml"
        raise OutputError(Fault(str(path), "exists already", "a new file", advice))


def _task_name(path: Path) -> tuple[str, tuple[str, ...]]:
    """The task's name, that of its file unless a known task has it."""
    name = _plain(path.stem)
    if name not in open_catalog(()).entries:
        return name, ()
    return f"own_{name}", (f"the task is called own_{name}: {name} is a task of the library",)
