"""docs/finetuning.md is tested: its tables agree with the code, and its example runs."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from assay.core.training import METHODS, FitSettings
from assay.models.loading.checkpoint import FAMILY_LEARNS
from assay.models.training.hyperparameters import DECODER, ENCODER, ENCODER_DECODER, LEARNING_RATES

PAGE = (Path(__file__).parents[2] / "docs" / "finetuning.md").read_text(encoding="utf-8")


def test_the_settings_and_their_defaults_are_those_of_the_code() -> None:
    section = PAGE.partition("## Settings")[2].partition("## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE))
    assert rows == {entry.name: str(entry.default) for entry in fields(FitSettings)}


def test_the_rates_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\| ([\de.-]+) \| ([\de.-]+) \| ([\de.-]+) \|", PAGE, re.MULTILINE)
    families = (DECODER, ENCODER_DECODER, ENCODER)
    found = {(row[0], family): float(rate) for row in rows for family, rate in zip(families, row[1:], strict=True)}
    assert tuple(row[0] for row in rows) == METHODS
    assert found == LEARNING_RATES


def test_language_models_learn_what_the_page_says() -> None:
    assert set(FAMILY_LEARNS) == {DECODER, ENCODER_DECODER}
    assert {kind for kinds in FAMILY_LEARNS.values() for kind in kinds} == {"loglikelihood"}
