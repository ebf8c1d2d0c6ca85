"""Metrics of the package `evaluate`, with a package of that name standing in for it; and packages that are missing."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.errors import MissingExtra, UnknownName, UserError
from assay.core.packages import check_packages
from assay.core.requests import Instance
from assay.core.responses import Logprob, Text
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.document_scorer import DocumentScorer, document_scorer
from assay.scoring.metrics import hf_evaluate as external
from assay.scoring.registry import METRICS, scoring_needs

DOCUMENT = Document("t", 7, {})


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Installs the stand-in; returns the names that were loaded."""
    names: list[str] = []

    def load(name: str) -> Any:
        names.append(name)
        if name == "nowhere":
            raise ConnectionError("no route to the Hub")
        return SimpleNamespace(compute=compute)

    def compute(references: list[Any], predictions: list[Any], **options: Any) -> dict[str, float]:
        return {"f1": float(references == predictions), "size": float(len(options))}

    package = ModuleType("evaluate")
    package.load = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "evaluate", package)
    external.load_external.cache_clear()
    return names


def scorer(*metrics: MetricSpec, shape: str = "generate_until") -> DocumentScorer:
    return document_scorer(Scoring(shape, metrics), "task t")


def values_of(made: DocumentScorer, said: str = "b", gold: Any = "b") -> dict[str, Any]:
    return made.score(DOCUMENT, Instance("t", 7, (), gold=gold), [Text(said)])[0].values


def test_an_external_metric_is_loaded_once_before_any_value(loads: list[str]) -> None:
    made = scorer(MetricSpec("f1", is_external=True, options={"average": "micro"}))
    assert loads == ["f1"]
    assert values_of(made) == {"f1": 1.0, "size": 1.0}
    assert values_of(made, said="c") == {"f1": 0.0, "size": 1.0}
    assert loads == ["f1"]


def test_a_name_that_is_in_no_table_is_looked_for(loads: list[str]) -> None:
    assert values_of(scorer(MetricSpec("meteor"))) == {"f1": 1.0, "size": 0.0}
    assert loads == ["meteor"]


def test_several_right_answers_take_the_value_of_the_metrics_name(loads: list[str]) -> None:
    assert values_of(scorer(MetricSpec("f1", is_external=True)), gold=("a", "b")) == {"f1": 1.0}
    with pytest.raises(UserError, match='metric "meteor" raised KeyError'):
        values_of(scorer(MetricSpec("meteor")), gold=("a", "b"))


def test_choices_never_need_it(loads: list[str]) -> None:
    made = scorer(MetricSpec("f1", is_external=True), shape="multiple_choice")
    built = Instance("t", 7, (), choices=("a", "b"), gold=1)
    found = made.score(DOCUMENT, built, [Logprob(-2.0, 1, False), Logprob(-1.0, 1, False)])[0]
    assert (found.values, loads) == ({"f1": (1, 1)}, [])


def test_exact_match_is_our_own(loads: list[str]) -> None:
    made = scorer(MetricSpec("exact_match", is_external=True, options={"ignore_case": True}))
    assert (values_of(made, said="B"), loads) == ({"exact_match": 1.0}, [])


def test_a_metric_that_cannot_be_loaded_is_the_users_error(loads: list[str]) -> None:
    message = (
        'task t, metric "nowhere": the package evaluate could not load "nowhere": ConnectionError: no route to the Hub'
    )
    with pytest.raises(UserError, match=message):
        values_of(scorer(MetricSpec("nowhere", is_external=True)))


def test_the_missing_package_is_named_before_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evaluate", None)
    with pytest.raises(MissingExtra, match=r'task t, metric "f1": the package "evaluate".*assay-eval\[metrics\]'):
        scorer(MetricSpec("f1", is_external=True))


def test_without_the_package_an_unknown_name_is_taken_for_a_slip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evaluate", None)
    with pytest.raises(UnknownName, match='task t: unknown metric "exact_mtch" .did you mean "exact_match"'):
        scorer(MetricSpec("exact_mtch"))


@pytest.mark.parametrize(
    ("spec", "module", "package"),
    [
        (MetricSpec("bleu"), "sacrebleu", "sacrebleu"),
        (MetricSpec("exact_match", "ter"), "sacrebleu", "sacrebleu"),
        (MetricSpec("rougeL"), "rouge_score", "rouge-score"),
    ],
)
def test_other_missing_packages_are_named_early_too(
    spec: MetricSpec, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f'task t, metric "{spec.name}": the package "{package}" is not installed'):
        check_packages(scoring_needs(Scoring("generate_until", (spec,)), "task t"))


def test_every_metric_of_the_table_exists() -> None:
    assert [METRICS.get(name).name for name in METRICS.table] == list(METRICS.table)
