"""Error classes. Each message says where, what was found, what was expected and what to do next.

AssayError                    a bug or an unexpected state: exit code 1
└── UserError                 the user can fix it: exit code 2, no traceback
    ├── ArgumentError         a call with an unknown, missing or ill-typed argument; also a TypeError
    ├── UnknownName           no such task, model, metric, filter or run
    │   └── NoSuchResult      a result without such a task, group or metric; also a KeyError
    ├── TaskFileError         a task file has faults; carries all of them
    ├── DataError             a dataset, split, column or document does not have the required form
    ├── ModelError            a model cannot be found or loaded, or cannot answer this kind of request
    ├── MissingExtra          an optional dependency is not installed
    ├── StoreError            the store cannot be opened, read or written
    ├── MissingAnswers        the store lacks answers that rescoring needs
    ├── LimitError            a template or a regular expression takes too much time or memory
    └── OutputError           a result file cannot be written
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.core.secrets import redacted_text


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem in four parts; the last two may be empty. Secrets in any part are redacted."""

    where: str
    found: str
    expected: str = ""
    next: str = ""

    def __post_init__(self) -> None:
        for name in ("where", "found", "expected", "next"):
            object.__setattr__(self, name, redacted_text(getattr(self, name)))

    def __str__(self) -> str:
        text = f"{self.where}: {self.found}" if self.where else self.found
        if self.expected:
            text += f"; expected {self.expected}"
        if self.next:
            text += f". {self.next}"
        return text


class AssayError(Exception):
    """Base class of all errors of Assay."""

    exit_code = 1


class UserError(AssayError):
    """An error that the user can fix. Holds one or more faults."""

    exit_code = 2

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class ArgumentError(UserError, TypeError):
    """A call of a public function with arguments that do not fit its signature."""


class UnknownName(UserError):
    """A name that is not registered."""


class NoSuchResult(UnknownName, KeyError):
    """A task, group or metric that a result does not have."""

    __str__ = Exception.__str__  # KeyError would put quotes around the message


class TaskFileError(UserError):
    """A task file with faults; lists all of them."""


class DataError(UserError):
    """Data that is missing or has the wrong form."""


class ModelError(UserError):
    """A model that cannot be opened or does not support the request."""


class MissingExtra(UserError):
    """An optional dependency that is not installed."""


class StoreError(UserError):
    """A store that cannot be opened, read or written."""


class MissingAnswers(UserError):
    """Answers that rescoring needs and the store does not hold."""


class LimitError(UserError):
    """A template or a regular expression from a task file that exceeds its time or memory limit."""

    def at(self, where: str) -> LimitError:
        """The same error with a location, unless it has one already."""
        fault = self.faults[0]
        return self if fault.where else LimitError(Fault(where, fault.found, fault.expected, fault.next))


class OutputError(UserError):
    """A result file that cannot be written."""


def closest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a misspelt one, best first."""
    lowered = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=0.6)
    return [lowered[match] for match in matches]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean "regex"?)`, or an empty string when no known name is close."""
    return suggestion(closest(name, known))


def suggestion(near: Sequence[str]) -> str:
    """` (did you mean "regex"?)` for some names; empty for none."""
    if not near:
        return ""
    return " (did you mean " + " or ".join(f'"{candidate}"' for candidate in near) + "?)"


def unknown_name(noun: str, name: str, known: Sequence[str], where: str = "") -> UnknownName:
    """The error for an unregistered name, with the closest names and the command that lists all names."""
    return UnknownName(
        Fault(where, f'unknown {noun} "{name}"{did_you_mean(name, known)}', next=f"See: assay ls {noun}s")
    )


def no_such_result(where: str, noun: str, name: str, known: Sequence[str]) -> NoSuchResult:
    """The error for a task, group or metric that a result does not have."""
    return NoSuchResult(Fault(where, f'has no {noun} "{name}"{did_you_mean(str(name), known)}', ", ".join(known)))


# Advice from other libraries about their own functions: useless here, or unsafe.
_FOREIGN_ADVICE = re.compile(
    r"weights_only|trust_remote_code|HF_HUB_DISABLE|HF_DATASETS_TRUST|git\+|pip install|conda install"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(])")
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")


def plain_reason(error: BaseException, lines: int = 1) -> str:
    """Another library's error message on one line, without advice about calls that Assay's users do not make."""
    text = redacted_text(_TERMINAL_CODES.sub("", str(error)))  # redacted before it is cut: half a token is a secret
    said = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    sentences = _SENTENCE.split(" ".join(said[:lines]))
    kept = " ".join(sentence for sentence in sentences if not _FOREIGN_ADVICE.search(sentence))
    return kept[:400] or type(error).__name__


# Packages whose install name differs from their import name.
_INSTALL_NAMES = {"sklearn": "scikit-learn", "rouge_score": "rouge-score", "yaml": "pyyaml", "PIL": "pillow"}


def install_name(module: str) -> str:
    """The package that provides a module."""
    package = module.partition(".")[0]
    return _INSTALL_NAMES.get(package, package)


def install_line(module: str) -> str:
    """The command that installs a module needed by third-party code."""
    return f"Run: pip install {install_name(module)}"


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for a missing optional dependency, with the command that installs it."""
    return MissingExtra(
        Fault(purpose, f'the package "{package}" is not installed', next=f"Run: pip install 'assay-eval[{extra}]'")
    )
