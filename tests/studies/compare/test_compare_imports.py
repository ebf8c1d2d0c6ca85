"""`compare` on recorded runs loads records, statistics and reports, and nothing that builds or executes requests."""

from __future__ import annotations

import subprocess
import sys

# Modules of assay, packages counted, that comparing recorded runs of one task and reporting it may import.
MOST_MODULES = 80
LOADED = """
import sys
import assay.studies.compare.compare_runs, assay.studies.compare.compare_report
print(*(name for name in sys.modules if name.split(".")[0] == "assay"))
"""


def test_compare_does_not_import_tasks_models_or_the_conductor() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [
        name for name in loaded if name.startswith(("assay.tasks", "assay.models", "assay.run", "assay.data"))
    ] == []
    assert len(loaded) <= MOST_MODULES
