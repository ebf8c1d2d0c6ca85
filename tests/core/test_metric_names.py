"""Names of metrics that hold a setting."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.metric_names import expanded_entries, expanded_specs, family_of, name_faults, uses_all_draws
from assay.core.specs import MetricSpec


def names(*entries: dict[str, Any]) -> list[str]:
    return [entry["metric"] for entry in expanded_entries(entries)]


def test_a_list_of_settings_is_as_many_metrics() -> None:
    found = expanded_entries([{"metric": "pass@k", "k": [1, 5], "ignore_case": True}])
    assert found == [
        {"metric": "pass@1", "k": 1, "ignore_case": True},
        {"metric": "pass@5", "k": 5, "ignore_case": True},
    ]


def test_every_pair_of_two_settings_has_a_name() -> None:
    assert names({"metric": "gpass@k", "k": [2, 4], "tau": [0.25, 1]}) == [
        "gpass@2:0.25",
        "gpass@2:1",
        "gpass@4:0.25",
        "gpass@4:1",
    ]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("pass@k", "pass@1"),
        ("pass^3", "pass^3"),
        ("maj@64", "maj@64"),
        ("gpass@5", "gpass@5:0.5"),
        ("gpass@5:0.75", "gpass@5:0.75"),
        ("selective_acc", "selective_acc@0.8"),
        ("selective_acc@0.5", "selective_acc@0.5"),
        ("acc", "acc"),
    ],
)
def test_a_name_alone_is_enough(name: str, reported: str) -> None:
    assert names({"metric": name}) == [reported]


def test_expanding_twice_changes_nothing() -> None:
    once = expanded_entries([{"metric": "gpass@k", "k": [2], "tau": [0.25, 1]}, {"metric": "selective_acc"}])
    assert expanded_entries(once) == once


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"metric": "pass@5", "k": 3}, "5, as its name says"),
        ({"metric": "pass@0"}, "1 or more draws"),
        ({"metric": "pass@k", "k": True}, "1 or more draws"),
        ({"metric": "pass@k", "k": "5"}, "1 or more draws"),
        ({"metric": "maj@k", "k": []}, "is empty"),
        ({"metric": "gpass@k", "k": 2, "tau": 1.5}, "from 0 to 1"),
        ({"metric": "selective_acc", "coverage": 0}, "above 0"),
    ],
)
def test_settings_that_make_no_sense_are_reported(entry: dict[str, Any], message: str) -> None:
    (fault,) = name_faults(entry, "here")
    assert message in str(fault) and "here" in str(fault)
    with pytest.raises(UserError, match="metric"):
        expanded_entries([entry])


def test_a_family_is_known_by_any_of_its_names() -> None:
    assert [family_of(name) for name in ("pass@5", "pass^2", "gpass@3:1", "mean@k", "pass@x", "f1")] == [
        "pass@k",
        "pass^k",
        "gpass@k",
        "mean@k",
        "pass@x",
        "f1",
    ]
    assert uses_all_draws("maj@3") and uses_all_draws("maj@k") and not uses_all_draws("selective_acc@0.8")


def test_a_tasks_own_function_keeps_its_name() -> None:
    own = MetricSpec("pass@k", function=lambda: 1)
    assert expanded_specs([own, MetricSpec("mean@k", options={"k": [1, 2]})]) == (
        own,
        MetricSpec("mean@1", options={"k": 1}),
        MetricSpec("mean@2", options={"k": 2}),
    )
