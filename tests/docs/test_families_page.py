"""docs/families.md is tested: its table agrees with the code for every family."""

from __future__ import annotations

import re
from pathlib import Path

from assay.models.hf.encoder.heads import HEADS
from assay.models.loading.arguments import DECODER, ENCODER, FAMILIES, QUANTIZATIONS
from assay.models.loading.checkpoint import FAMILY_KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "families.md").read_text(encoding="utf-8")


def test_the_table_says_what_each_family_answers() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]*\| (yes|no) \| (yes|no) \| (yes|no) \|", PAGE, re.MULTILINE)
    assert (*(row[0] for row in rows), ENCODER) == FAMILIES
    columns = ("loglikelihood", "rolling_loglikelihood", "generation")
    for name, *cells in rows:
        kinds = FAMILY_KINDS["causal" if name == DECODER else name]
        assert kinds == {kind for kind, cell in zip(columns, cells, strict=True) if cell == "yes"}


def test_the_table_says_what_each_head_answers() -> None:
    rows = re.findall(r"^\| [\w ]+ \| (`…For[^|]*) \| ([^|]*) \|", PAGE, re.MULTILINE)
    message = {
        ending: set(re.findall(r"`(\w+)`", kinds))
        for endings, kinds in rows
        for ending in re.findall("…(\\w+)", endings)
    }
    # The odd name of XLNet's head goes without saying.
    assert message == {name: set(head.kinds) for name, head in HEADS.items() if not name.endswith("Simple")}


def test_the_table_names_every_way_to_quantise() -> None:
    assert set(re.findall(r"^\| `(int8\w+)` \|", PAGE, re.MULTILINE)) == set(QUANTIZATIONS)
