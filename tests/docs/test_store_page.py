"""The page on the store: its failures are those of the code, its figures those of the file."""

from __future__ import annotations

import re
from pathlib import Path

from assay.core.output_checks import LOGPROB_TOLERANCE
from assay.core.responses import Failure

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")


def test_every_failure_of_the_check_is_listed() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    source = (ROOT / "src/assay/core/output_checks.py").read_text() + (ROOT / "src/assay/run/execute.py").read_text()
    made = set(re.findall(r'(?:_InvalidAnswer|Failure)\(\s*"(\w+)"', source))
    assert listed == made
    assert all(f"`{kind}`" in (Failure.__doc__ or "") for kind in listed)


def test_the_tolerance_is_the_one_of_the_code() -> None:
    assert f"{LOGPROB_TOLERANCE} per token" in PAGE
