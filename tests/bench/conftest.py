"""Makes the packages `bench` and `parity` of the project's root importable: they are not installed with Assay."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
