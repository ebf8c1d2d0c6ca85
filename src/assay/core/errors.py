"""Errors for people. Each one says where, what was found, what was expected and what to do next.

AssayError                    a bug or an unforeseen state: exit 1
└── UserError                 the user can mend it: exit 2, no traceback
    ├── UnknownName           no such task, model, metric, filter or run
    ├── TaskFileError         a task file has faults; carries all of them
    ├── DataError             a dataset, split, column or document is not as needed
    ├── ModelError            a model cannot be found, loaded or asked this way
    ├── MissingExtra          an optional dependency is not installed
    ├── StoreError            the store cannot be opened, read or written
    ├── MissingAnswers        the store lacks answers that a new score needs
    └── OutputError           a result file cannot be written
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, in four parts; the last two may be empty."""

    where: str
    found: str
    expected: str = ""
    next: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.found}" if self.where else self.found
        if self.expected:
            text += f"; expected {self.expected}"
        if self.next:
            text += f". {self.next}"
        return text


class AssayError(Exception):
    """Root of the family."""

    exit_code = 1


class UserError(AssayError):
    """Something the user can mend. Holds one or more faults."""

    exit_code = 2

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class UnknownName(UserError):
    """A name that is in no table."""


class TaskFileError(UserError):
    """A task file with faults, all of them."""


class DataError(UserError):
    """Data that is missing or has the wrong shape."""


class ModelError(UserError):
    """A model that cannot be opened or cannot do what is asked."""


class MissingExtra(UserError):
    """An optional dependency that is not installed."""


class StoreError(UserError):
    """A store that cannot be opened, read or written."""


class MissingAnswers(UserError):
    """Answers that a new score needs and the store does not hold."""


class OutputError(UserError):
    """A result file that cannot be written."""


def closest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names nearest to a misspelt one, best first."""
    lowered = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=0.6)
    return [lowered[match] for match in matches]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean "regex"?)`, or nothing when no known name is near."""
    near = closest(name, known)
    if not near:
        return ""
    return " (did you mean " + " or ".join(f'"{candidate}"' for candidate in near) + "?)"


def unknown_name(noun: str, name: str, known: Sequence[str], where: str = "") -> UnknownName:
    """The error for a name that is in no table, with the nearest names and where to look."""
    return UnknownName(
        Fault(where, f'unknown {noun} "{name}"{did_you_mean(name, known)}', next=f"See: assay ls {noun}s")
    )


# Packages that are installed under another name than they are imported by.
_INSTALL_NAMES = {"sklearn": "scikit-learn", "rouge_score": "rouge-score", "yaml": "pyyaml", "PIL": "pillow"}


def install_line(module: str) -> str:
    """What to run for a module that code of others wants."""
    package = module.partition(".")[0]
    return f"Run: pip install {_INSTALL_NAMES.get(package, package)}"


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for an optional dependency, with the line that installs it."""
    return MissingExtra(
        Fault(purpose, f'the package "{package}" is not installed', next=f"Run: pip install 'assay-eval[{extra}]'")
    )
