"""Samples know by which rule and where their answer was read."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.requests import Instance
from assay.core.responses import Text
from assay.core.scores import Extraction, Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.documents import document_scorer

DOCUMENT = Document("t", 0, {"choices": ["Rome", "Paris"]})
TAKE = FilterSpec("take_first")
LETTER = FilterSpec("extract", {"using": "letter"})


def sample(steps: list[FilterSpec], *texts: str) -> Sample:
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),), (PipelineSpec("p", tuple(steps)),))
    instance = Instance("t", 0, (), draws=len(texts), gold="B")
    return document_scorer(scoring, "t").score(DOCUMENT, instance, [Text(text) for text in texts])[0]


def test_our_own_step_tells_rule_and_place_of_every_draw() -> None:
    found = sample([LETTER, TAKE], "The answer is B.", "dunno")
    assert found.filtered == ("B",)
    assert found.extractions == ((Extraction("B", "letter_statement", 14, 15), Extraction(None, None, -1, -1)),)


def test_a_pipeline_that_extracts_nothing_has_no_extractions() -> None:
    assert sample([TAKE], "B").extractions == ()


def test_places_are_those_in_the_models_text() -> None:
    text = "  \n The answer is B. "
    assert sample([FilterSpec("remove_whitespace"), LETTER, TAKE], text).extractions == (
        (Extraction("B", "letter_statement", 18, 19),),
    )
    assert sample([TAKE, LETTER], text).extractions == ((Extraction("B", "letter_statement", 18, 19),),)


def test_a_place_that_cannot_be_told_is_nowhere() -> None:
    mapped = FilterSpec("map", {"mapping_dict": {"b": "Answer: B"}})
    assert sample([mapped, LETTER, TAKE], "b").extractions == ((Extraction("B", "letter_statement", -1, -1),),)


@pytest.mark.parametrize(
    ("options", "text", "extraction"),
    [
        ({}, "so #### 5.", Extraction("5.", "regex", 8, 10)),
        ({}, "so", Extraction()),
        ({"regex_pattern": "[0-9]+", "group_select": -1}, "1 22 333", Extraction("333", "regex", 5, 8)),
        ({"regex_pattern": "(x)|( y )"}, "a y b", Extraction("y", "regex", 2, 3)),
        ({"fallback": "none"}, "so", Extraction()),
    ],
)
def test_lm_evals_regex_is_watched(options: dict[str, Any], text: str, extraction: Extraction) -> None:
    assert sample([FilterSpec("regex", options), TAKE], text).extractions == ((extraction,),)


def test_lm_evals_choice_regex_is_known_to_have_matched() -> None:
    steps = [FilterSpec("multi_choice_regex"), TAKE]
    assert sample(steps, "it is Paris").extractions == ((Extraction("(B)", "multi_choice_regex", -1, -1),),)
    assert sample(steps, "dunno").extractions == ((Extraction(),),)


def test_of_two_steps_the_later_counts_and_nothing_stays_nothing() -> None:
    steps = [FilterSpec("regex", {"regex_pattern": "<(.*)>"}), FilterSpec("regex", {"regex_pattern": "[a-z]"}), TAKE]
    assert sample(steps, "x <1 b>").extractions == ((Extraction("b", "regex", 5, 6),),)
    # The second step finds a letter in "[invalid]", which nobody said.
    assert sample(steps, "x").extractions == ((Extraction(),),)


def test_an_answer_that_a_later_step_hides_is_still_missing() -> None:
    steps = (LETTER, FilterSpec("map", {"mapping_dict": {"B": "1"}, "default_value": "0"}), TAKE)
    scorer = document_scorer(Scoring("generate_until", (MetricSpec("exact_match"),), (PipelineSpec("p", steps),)), "t")
    instance = Instance("t", 0, (), gold="1")
    found = [scorer.is_unparsed(scorer.score(DOCUMENT, instance, [Text(said)])[0]) for said in ("B", "dunno")]
    assert found == [False, True]


def test_filters_of_a_task_are_watched_by_their_fallback() -> None:
    class Yes:
        fallback = "?"

        def apply(self, responses: list[Any], documents: list[Any]) -> list[list[str]]:
            return [["yes" if draw == "yes" else "?" for draw in draws] for draws in responses]

    steps = [FilterSpec("Yes", {}, Yes), TAKE]
    assert sample(steps, "yes", "no").extractions == ((Extraction("yes", "Yes", -1, -1), Extraction()),)
