"""Validation metrics equal the tasks' own metrics."""

from __future__ import annotations

import random

import pytest

from assay.models.training.validation_metrics import f1, matthews, prediction_metrics
from assay.scoring.metrics.aggregations import AGGREGATIONS

KINDS = {"f1": f1, "matthews_corrcoef": matthews}


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_have_the_metrics_of_the_tasks(name: str, classes: int) -> None:
    chance = random.Random(7)
    for size in (1, 5, 40):
        pairs = [(chance.randrange(classes), chance.randrange(classes)) for _ in range(size)]
        aggregation = AGGREGATIONS[name]
        expected = aggregation.estimate(aggregation.read(pairs)).value
        assert KINDS[name](pairs) == pytest.approx(expected, abs=1e-12)


def test_one_class_is_counted_with_its_share() -> None:
    found = prediction_metrics([(0, 1), (1, 1), (1, 1), (1, 1)])
    assert (found["accuracy"], found["classes"], found["majority"], found["mcc"]) == (0.75, 1.0, 0.75, 0.0)
