"""Serves the shared datasets as a hub on this machine, for as long as a comparison runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import AssayError, Fault, UserError
from parity.lifetime import end_with_parent

# Datasets, models and the hub's server: the folder of the environment variable, else the one next to the checkout.
SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub that is being served."""

    address: str
    process: subprocess.Popen[str]

    def check(self) -> None:
        """Fails if the hub has died: the workers would wait minutes for each dataset, and then report it as missing."""
        if self.process.poll() is not None:
            raise AssayError(f"the hub at {self.address} ended (code {self.process.returncode}); was it killed?")


@contextmanager
def served_hub(shared: Path, folder: Path | None = None) -> Iterator[Hub]:
    """Starts the hub and ends it with the block.

    Args:
        shared: the folder with the hub's server and its datasets.
        folder: other datasets to serve.
    """
    script, data = shared / "tools" / "hub.py", folder or shared / "data" / "hub"
    for needed in (script, data):
        if not needed.exists():
            raise UserError(Fault("--shared", f"has no {needed}", "the folder with tools/hub.py and data/hub"))
    command = [sys.executable, str(script), str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent) as hub:
        try:
            assert hub.stdout is not None, "the output is a pipe"
            address = hub.stdout.readline().strip()
            if not address.startswith("http://"):
                raise UserError(Fault(str(script), f"printed {address!r}", "an address"))
            yield Hub(address, hub)
        finally:
            hub.terminate()
