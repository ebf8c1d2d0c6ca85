"""What studies of several models share: random accuracy and notices by model."""

from __future__ import annotations

import pytest

from assay.studies.paired.several_models import named_notices, random_accuracy


def test_random_accuracy_follows_the_choices_of_each_document() -> None:
    asked = [((0,), 2), ((0,), 4), ((0, 1), 4), ((-1,), 2)]
    assert random_accuracy(asked) == pytest.approx((0.5 + 0.25 + 0.5 + 0.0) / 4)
    assert random_accuracy([]) is None


def test_a_notice_of_some_models_names_these() -> None:
    message = {"a": ["x", "y", "y"], "b": ["y"], "c": ["y", "z"], "d": []}
    assert named_notices(message) == ["a: x", "a, b, c: y", "c: z"]
    assert named_notices({"a": ["x"]}) == ["a: x"]
