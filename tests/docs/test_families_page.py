"""docs/families.md cannot rot: its table says of every family what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from assay.models.causal_arguments import DECODER, FAMILIES
from assay.models.checkpoints import FAMILY_KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "families.md").read_text(encoding="utf-8")


def test_the_table_says_what_each_family_answers() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]*\| (yes|no) \| (yes|no) \| (yes|no) \|", PAGE, re.MULTILINE)
    assert tuple(row[0] for row in rows) == FAMILIES
    columns = ("loglikelihood", "rolling_loglikelihood", "generation")
    for name, *cells in rows:
        kinds = FAMILY_KINDS["causal" if name == DECODER else name]
        assert kinds == {kind for kind, cell in zip(columns, cells, strict=True) if cell == "yes"}
