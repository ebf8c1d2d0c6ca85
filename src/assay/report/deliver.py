"""Outputs of a command: a table, files and figures, each independent of the others.

An output that fails does not stop the others. The failures are reported at the end, and the exit code is that of the
worst: 1 for a bug, 2 for what cannot be written, 3 for missing answers or scores, 4 for a run worse than its baseline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.core.errors import AssayError, Fault, UserError
from assay.core.results import Problem
from assay.report.result_files import ReportFormats, WrittenFiles
from assay.report.terminal import show_written

if TYPE_CHECKING:
    from rich.console import Console

INCOMPLETE, WORSE = 3, 4


@dataclass(slots=True)
class CommandOutput:
    """The outputs of a command, and the problems with them."""

    problems: list[Problem] = field(default_factory=list)
    _closed: OSError | SystemExit | None = None

    def show(self, what: str, show: Callable[[], object]) -> None:
        """Shows an output; `what` names it in errors."""
        try:
            show()
        except UserError as error:
            self.problems.append(Problem(error.faults, error))
        except (OSError, SystemExit) as error:
            # Standard output is full, or the reader of a pipe has seen enough: the files are still to be written.
            self._closed = self._closed or error
        except Exception as error:  # a bug in a table must not prevent writing the files
            found = f"could not be shown: {type(error).__name__}: {error}"
            self.problems.append(Problem((Fault(what, found),), error))

    def take(self, written: WrittenFiles, console: Console | None) -> None:
        """Adds the problems of written files; lists the files if there is a console."""
        self.problems.extend(written.problems)
        if console is not None:
            self.show("the list of files", lambda: show_written(written.paths, console))

    def show_text(self, formats: ReportFormats, name: str, found: Any) -> None:
        """Prints a report in one of its formats."""
        self.show(f"--format {name}", lambda: sys.stdout.write(formats.text(name, found)))

    def code(self, found: Iterable[Problem] = (), is_whole: bool = True, is_worse: bool = False) -> int:
        """The exit code; raises the first bug, or else the faults of outputs, standard output last.

        Args:
            found: problems of the run itself, which have been shown already.
            is_whole: whether every request was answered and every task scored.
            is_worse: whether a run is worse than its baseline.
        """
        bugs = [problem for problem in (*found, *self.problems) if problem.is_bug]
        faults = [fault for problem in self.problems if not problem.is_bug for fault in problem.faults]
        if bugs:
            for fault in faults:
                sys.stderr.write(f"error: {fault}\n")
            raise AssayError("; ".join(problem.text for problem in bugs)) from bugs[0].error
        if faults:
            raise UserError(*faults)
        if self._closed is not None:
            raise self._closed
        return WORSE if is_worse else 0 if is_whole else INCOMPLETE


def overall_code(codes: Sequence[int]) -> int:
    """The exit code of several runs: that of a bug if any; of a user error if all have one; else 3 if any failed."""
    if AssayError.exit_code in codes:
        return AssayError.exit_code
    if all(code == UserError.exit_code for code in codes):
        return UserError.exit_code
    return INCOMPLETE if any(codes) else 0
