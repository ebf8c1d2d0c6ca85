"""`python -m parity record`: runs lm-eval on the dialect's task files and writes the golden files."""

from __future__ import annotations

import sys
from typing import Any

from assay.core.atomic_files import cache_folder
from assay.core.errors import Fault, UserError
from parity.golden import DIALECT, jobs, write_golden
from parity.installation import LM_EVAL_VERSION, find_lm_eval
from parity.job import Job
from parity.lifetime import alone_in
from parity.records import RecordFile
from parity.workers import Output, run_reference


def record(python: str | None) -> None:
    """Rewrites all golden files."""
    lm_eval = find_lm_eval(python)
    for kind, job in jobs().items():
        output = Output(cache_folder() / "parity" / "record" / kind)
        output.folder.mkdir(parents=True, exist_ok=True)
        with alone_in(output.folder):
            # The settings do not know the task files' content.
            output.records("reference").unlink(missing_ok=True)
            run_reference(job, lm_eval, output, DIALECT)
            path = write_golden(kind, job, _records(job, output), LM_EVAL_VERSION)
        print(f"{path}: {len(job.tasks) * len(job.cases)} records, {path.stat().st_size:,} bytes", file=sys.stderr)


def _records(job: Job, output: Output) -> list[dict[str, Any]]:
    file = RecordFile(output.records("reference"))
    found = [file.get((name, case.name)) or {} for name in job.tasks for case in job.cases]
    faults = [Fault(item["task"], f"{item['case']}: {item['error']}") for item in found if "error" in item]
    if faults:
        raise UserError(*faults)
    return found
