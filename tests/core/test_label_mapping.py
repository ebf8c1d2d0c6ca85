"""Labels of a task and outputs of a head: by name, by place, or not at all."""

from __future__ import annotations

import pytest

from assay.core.label_mapping import label_indices, unknown_labels_message


@pytest.mark.parametrize(
    ("own", "wanted", "places"),
    [
        (("entailment", "neutral", "contradiction"), ("neutral", "entailment", "contradiction"), (1, 0, 2)),
        (("NOT_ENTAILMENT", "Entailment"), ("entailment", "not entailment"), (1, 0)),
        (("so-so", "good", "bad"), ("Good", "so  so"), (1, 0)),
        (("LABEL_0", "LABEL_1"), ("no", "yes"), (0, 1)),
        (("LABEL_0", "LABEL_1"), ("label_1", "label_0"), (1, 0)),
        (("LABEL_0", "LABEL_1"), ("no", "yes", "both"), None),
        (("good", "bad"), ("good", "LABEL_1"), None),
        (("good", "bad"), ("no", "yes"), None),
        (("good", "bad"), (), None),
        # Case alone tells these apart, so nothing else than exact names will do.
        (("us", "US"), ("US", "us"), (1, 0)),
        (("us", "US"), ("Us", "us"), None),
        (("good", "bad"), ("good", "Good"), None),
    ],
)
def test_labels_find_their_outputs(
    own: tuple[str, ...], wanted: tuple[str, ...], places: tuple[int, ...] | None
) -> None:
    assert label_indices(own, wanted) == places


def test_labels_that_find_none_are_named_on_both_sides() -> None:
    said = "labels outside the head: requested no, yes; the head has good, bad"
    assert unknown_labels_message(("good", "bad"), ("no", "yes")) == said
