"""Documents that task code changes in place, as lm-eval logs them.

lm-eval reads every row twice. It builds the prompt from the first copy (`doc_to_text`, `doc_to_choice`,
`doc_to_target`, in this order) and writes the hash of that copy as `doc_hash`. It scores with the second copy and
writes it as `doc`, with the changes by `process_results` (or by lm-eval's own scoring, which reads choices and target)
and by `doc_to_target`, which is called again for the log.

Takes a task's readers and an unchanged row; gives both copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from assay.core.documents import ChangedDocument, is_changed
from assay.tasks.lm_eval.build.random_state import seeded

Reader = Callable[[Any], Any]


def changed_document(
    row: Mapping[str, Any], prompt_readers: Sequence[Reader], log_readers: Sequence[Reader]
) -> ChangedDocument:
    """Copies of a row after the task's code has changed it.

    Args:
        row: the original row; it is not changed.
        prompt_readers: functions that lm-eval calls to build the prompt, in its order.
        log_readers: functions that it calls on the row that it logs, besides the task's own `process_results`.
    """
    after_prompt, logged = _after(row, prompt_readers), _after(row, log_readers)
    own = {name: value for name, value in logged.items() if name not in row or is_changed(value, row[name])}
    return ChangedDocument(after_prompt, own)


def _after(row: Mapping[str, Any], readers: Sequence[Reader]) -> dict[str, Any]:
    """A copy of the row after code has read it. The global random generators are restored."""
    own = deepcopy(dict(row))
    try:
        with seeded(None, None):
            for read in readers:
                read(own)
    except Exception:  # needs changes by another reader; the prompt is built, and the log is not worth a failed run
        return deepcopy(dict(row))
    return own
