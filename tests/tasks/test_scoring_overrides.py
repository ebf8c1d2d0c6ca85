"""Scoring options of a run: their forms and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.tasks.scoring_overrides import scoring_changes

FILE = {
    "metric_list": [{"metric": "acc_mutual_phrase", "phrase": "So:"}],
    "filter_list": [{"name": "first", "filter": [{"function": "take_first"}]}],
}


def named(*names: str) -> list[dict[str, str]]:
    return [{"metric": name} for name in names]


def test_nothing_changes_nothing() -> None:
    assert scoring_changes(None, None) == {}


@pytest.mark.parametrize("metrics", ["acc, acc_norm", ["acc", "acc_norm"], "acc,,acc_norm,"])
def test_names(metrics: Any) -> None:
    assert scoring_changes(metrics, None) == {"metric_list": named("acc", "acc_norm")}


@pytest.mark.parametrize("metrics", ["+acc,ece", ["+acc", "ece"], "+ acc,ece"])
def test_a_plus_keeps_the_tasks_own(metrics: Any) -> None:
    found = scoring_changes(metrics, None)
    assert found["adds"] is True
    assert [entry["metric"] for entry in found["metric_list"]] == ["acc", "ece"]


@pytest.mark.parametrize("metrics", ["", " , ", [], "+"])
def test_no_name_is_a_fault(metrics: Any) -> None:
    with pytest.raises(UserError, match="--metrics: names no metric"):
        scoring_changes(metrics, None)


def test_a_file_and_a_mapping(write_yaml: Callable[..., Path]) -> None:
    assert scoring_changes(None, write_yaml("mine.yaml", FILE)) == FILE
    assert scoring_changes(None, FILE) == FILE


def test_names_come_after_those_of_a_file() -> None:
    found = scoring_changes("acc", FILE)
    assert found["metric_list"] == [*FILE["metric_list"], {"metric": "acc"}]


def test_the_users_mapping_stays_as_it_is() -> None:
    own: dict[str, Any] = {"metric_list": named("acc")}
    scoring_changes("+ece", own)
    assert own == {"metric_list": named("acc")}


@pytest.mark.parametrize(
    "wrong",
    [
        {"metrics": []},
        {"metric_list": "acc"},
        {"metric_list": ["acc"]},
        {"metric_list": [{"name": "acc"}]},
        {"metric_list": [{"metric": 3}]},
        {"filter_list": [{"filter": [{"function": "take_first"}]}]},
        {"filter_list": [{"name": "x", "filter": "take_first"}]},
        {"filter_list": [{"name": "x", "filter": ["take_first"]}]},
        {"filter_list": ["take_first"]},
    ],
)
def test_faults(wrong: dict[str, Any], write_yaml: Callable[..., Path]) -> None:
    key = next(iter(wrong))
    with pytest.raises(UserError, match=key):
        scoring_changes(None, wrong)
    with pytest.raises(UserError, match="mine.yaml"):
        scoring_changes(None, write_yaml("mine.yaml", wrong))
