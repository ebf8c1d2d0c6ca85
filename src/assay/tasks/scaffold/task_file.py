"""The text of a new task file: YAML with a comment for everything that was guessed, and a card to fill in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from assay.core.plural import plural
from assay.tasks.lm_eval.file.card import TODO
from assay.tasks.scaffold.data_file import DataFile
from assay.tasks.scaffold.file_columns import on_one_line
from assay.tasks.scaffold.values import Guess, Part

_PLAIN = re.compile(r"[A-Za-z_]([\w/ .-]*[\w.])?", re.ASCII)
# Words that YAML reads as something else than text.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"))
_WIDEST = 118
# Kind → primary metric and why.
_PRIMARY = {
    "multiple_choice": ("acc", "All choices are equally likely to be guessed; acc_norm if they differ in length."),
    "classification": ("acc", "Every document has one right class."),
    "span_qa": ("squad_f1", "Partial credit for a span that overlaps with the right one."),
    "text_to_text": ("exact_match", "The right text is the only answer that counts."),
    "perplexity": ("bits_per_byte", "It does not depend on the tokenizer."),
}


@dataclass(frozen=True, slots=True)
class TaskText:
    """What a task file is written from.

    Attributes:
        name: the task's name.
        path: where the file will be.
        data: the data file.
        guess: its format.
        training: the training file, if there is one.
    """

    name: str
    path: Path
    data: DataFile
    guess: Guess
    training: DataFile | None = None


def task_text(task: TaskText) -> str:
    """The text of a task file."""
    return "\n".join([*_head(task), *_data(task), *_format(task.guess), *_card(task)]) + "\n"


def _head(task: TaskText) -> Iterator[str]:
    data, file = on_one_line(task.data.path.name, 60), on_one_line(task.path.name, 60)
    yield f"# Made by `assay task new` from {data}: {plural(len(task.data.rows), 'row')}."
    yield f"# The format is a guess ({task.guess.sureness}). Change any line, then run: assay check {file} --contract"
    yield from (f"# Doubt: {on_one_line(doubt, 100)}" for doubt in task.guess.doubts)
    yield f"task: {scalar(task.name)}"


def _data(task: TaskText) -> Iterator[str]:
    yield f"dataset_path: {task.data.builder}"
    yield "dataset_kwargs:"
    yield "  data_files:  # relative to this file"
    yield f"    test: {scalar(_relative(task.data.path, task.path))}"
    if task.training is not None:
        yield f"    train: {scalar(_relative(task.training.path, task.path))}"
    yield from (f"  {key}: {quoted(value)}" for key, value in task.data.options.items())
    yield "test_split: test"
    if task.training is not None:
        yield "training_split: train"
        yield "fewshot_split: train  # examples for --num_fewshot N"
    yield "metadata: {version: 1.0}"


def _relative(path: Path, file: Path) -> str:
    """The data's path beside the task file, so that both can be moved together."""
    try:
        found = Path(os.path.relpath(path.resolve(), file.parent.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()
    return path.resolve().as_posix() if found.startswith("~") else found


def _format(guess: Guess) -> Iterator[str]:
    yield ""
    if guess.kind == "perplexity":
        yield "output_type: loglikelihood_rolling"
        yield 'doc_to_text: ""'
    yield "format:"
    yield f"  kind: {guess.kind}"
    indent = "" if guess.kind == "perplexity" else "  "
    for part in guess.parts:
        yield from _part(part, indent)


def _part(part: Part, indent: str) -> Iterator[str]:
    line = f"{indent}{part.key}: {value_text(part.value)}"
    comment = on_one_line(part.meaning, 90)
    if not comment:
        yield line
    elif len(line) + len(comment) + 4 <= _WIDEST:
        yield f"{line}  # {comment}"
    else:
        yield f"{indent}# {comment}"
        yield line


def _card(task: TaskText) -> Iterator[str]:
    primary, reason = _PRIMARY[task.guess.kind]
    chance, rows = task.guess.chance, {"test": len(task.data.rows)}
    if task.training is not None:
        rows["train"] = len(task.training.rows)
    yield ""
    yield f"card:  # facts for people; they change no number. Replace what begins with {TODO}"
    yield f'  description: "{TODO}: what a document asks, in one line"'
    yield f"  languages: [{TODO}]  # codes such as en"
    yield f"  primary: {primary}  # the metric to quote"
    yield f"  primary_reason: {scalar(reason)}"
    yield f"  chance: {'null' if chance is None else f'{chance:.4g}'}  # expected {primary} of guessing"
    if task.guess.kind == "classification" and task.guess.majority is not None and not task.guess.is_sorted:
        yield f"  majority: {task.guess.majority:.4g}  # {primary} of always choosing the commonest class"
    yield "  prompt: our own"
    yield f'  licence: "{TODO}: licence of the data"'
    yield f'  citation: "{TODO}: whom to cite"'
    yield f"  rows: {{{', '.join(f'{split}: {count}' for split, count in rows.items())}}}"


# YAML


def value_text(value: Union[str, tuple[str, ...], bool]) -> str:
    """A value of a format as YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(scalar, value))}]" if isinstance(value, tuple) else scalar(value)


def scalar(text: str) -> str:
    """A text as YAML, in quotes where it would be read as something else."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else quoted(text)


def quoted(text: str) -> str:
    """A text in double quotes."""
    return '"' + "".join(map(_escaped, text)) + '"'


_ESCAPES: Mapping[str, str] = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and character != "\ufeff":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
