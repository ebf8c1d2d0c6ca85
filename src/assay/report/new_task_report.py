"""What `assay task new` says: the columns it saw, the format it guessed and how sure it is, and what to do next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.core.plural import plural
from assay.report.safe_names import printable
from assay.report.terminal import make_console, show_listing
from assay.tasks.scaffold.file_columns import on_one_line
from assay.tasks.scaffold.task_file import value_text
from assay.tasks.scaffold.values import CERTAIN, LIKELY, Guess, Table

_SURE = {
    CERTAIN: "certain: every row fits, and the columns' names say the same",
    LIKELY: "likely: every row fits, but the columns' names do not say so",
}
_WIDEST = 90


def show_guess(table: Table, guess: Guess, remarks: Sequence[str], path: Path) -> None:
    """Prints what a data file holds and how it was read.

    Args:
        table: its columns.
        guess: its format.
        remarks: what else was noticed.
        path: the task file that was written.
    """
    used = {column.name for column in guess.used}
    rows = [
        (
            column.name,
            column.described(),
            f"{column.distinct:,}",
            column.example(),
            "used" if column.name in used else "",
        )
        for column in table.columns
        if column.is_direct or column.name in used or column.expression.endswith("literal")
    ]
    _say(f"{table.path.name}: {plural(len(table.rows), 'row')}")
    show_listing(make_console(), ("Column", "Holds", "Distinct", "First", ""), rows)
    sure = _SURE.get(guess.sureness, f"doubtful: {plural(len(guess.doubts), 'doubt')} below")
    _say(f"format: {guess.kind}; {sure}")
    for part in guess.parts:
        meaning = f"  ({part.meaning})" if part.meaning else ""
        _say(f"  {part.key}: {on_one_line(value_text(part.value), _WIDEST)}{on_one_line(meaning, _WIDEST) and meaning}")
    for doubt in guess.doubts:
        _say(f"doubt: {doubt}", error=True)
    for remark in remarks:
        _say(f"note: {remark}")
    _say(f"wrote {path}\n")


def show_next(path: Path, guess: Guess) -> None:
    """Prints the commands that usually come next."""
    file = shlex.quote(str(path))
    _say("\nnext:")
    _say(f"  replace what begins with TODO in {path}: description, languages, licence, citation")
    _say(f"  assay show {file} --doc 3")
    _say(f"  assay run --model ngram --tasks {file}")
    if guess.kind in ("multiple_choice", "classification"):
        _say(f"  assay methods --model ngram --tasks {file} --styles own letters")


def _say(text: str, error: bool = False) -> None:
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=error)
