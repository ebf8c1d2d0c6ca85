"""Outputs of a command: a table, files and figures, each independent of the others.

An output that fails does not stop the others. At the end the failures are reported, and the exit code is that of the
worst: 1 for a bug, 2 for what cannot be written, 3 for a run that lacks answers or scores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.core.errors import AssayError, Fault, UserError
from assay.core.results import Problem
from assay.report.result_files import WrittenFiles
from assay.report.terminal import show_written

if TYPE_CHECKING:
    from rich.console import Console

INCOMPLETE = 3


@dataclass(slots=True)
class CommandOutput:
    """The outputs of a command, and what went wrong with them."""

    problems: list[Problem] = field(default_factory=list)
    _closed: OSError | SystemExit | None = None

    def show(self, what: str, show: Callable[[], object]) -> None:
        """Shows something; `what` names it where that fails."""
        try:
            show()
        except UserError as error:
            self.problems.append(Problem(error.faults, error))
        except (OSError, SystemExit) as error:
            # Standard output is full, or the reader of a pipe has seen enough: the files are still to be written.
            self._closed = self._closed or error
        except Exception as error:  # a bug in a table must not cost the files
            found = f"could not be shown: {type(error).__name__}: {error}"
            self.problems.append(Problem((Fault(what, found),), error))

    def take(self, written: WrittenFiles, console: Console | None) -> None:
        """Files that were written; they are listed where there is a console."""
        self.problems.extend(written.problems)
        if console is not None:
            self.show("the list of files", lambda: show_written(written.paths, console))

    def code(self, found: Iterable[Problem], is_whole: bool) -> int:
        """The exit code; raises the first bug, or else what the user can fix of the outputs, standard output last.

        Args:
            found: what the run itself lacks; it is shown already.
            is_whole: whether every request was answered and every task scored.
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
        return 0 if is_whole else INCOMPLETE
