"""Samples know by which rule and where their answer was read."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.requests import Instance
from assay.core.responses import Text
from assay.core.scores import Extraction, Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.document_scorer import document_scorer

DOCUMENT = Document("t", 0, {"choices": ["Rome", "Paris"]})
TAKE = FilterSpec("take_first")
LETTER = FilterSpec("extract", {"using": "letter"})


def sample(steps: list[FilterSpec], *texts: str) -> Sample:
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),), (PipelineSpec("p", tuple(steps)),))
    instance = Instance("t", 0, (), draws=len(texts), gold="B")
    return document_scorer(scoring, "t").score(DOCUMENT, instance, [Text(text) for text in texts])[0]


def test_our_own_step_reports_rule_and_offset_of_every_draw() -> None:
    found = sample([LETTER, TAKE], "The answer is B.", "dunno")
    assert found.filtered == ("B",)
    assert found.extractions == ((Extraction("B", "letter_statement", 14, 15), Extraction(None, None, -1, -1)),)


NUMBER = FilterSpec("extract", {"using": "number"})
CUT, WHOLE = Text("so 7", "length"), Text("so 7", "eos")


@pytest.mark.parametrize(
    ("steps", "outputs", "answers"),
    [
        ([NUMBER], [CUT, WHOLE], (None, "7")),
        ([FilterSpec("remove_whitespace"), NUMBER, TAKE], [CUT, WHOLE], (None, "7")),
        ([TAKE, NUMBER], [CUT, WHOLE], (None,)),
        ([TAKE, NUMBER], [WHOLE, CUT], ("7",)),
        ([FilterSpec("take_first_k", {"k": 2}), NUMBER], [WHOLE, CUT, CUT], ("7", None)),
        ([FilterSpec("majority_vote"), NUMBER], [Text("so 3"), CUT, CUT], (None,)),
        ([FilterSpec("regex", {"regex_pattern": "[0-9]+"})], [CUT, WHOLE], ("7", "7")),
    ],
)
def test_a_cut_text_is_read_as_one_and_lm_evals_filters_do_not_mind(
    steps: list[FilterSpec], outputs: list[Text], answers: tuple[str | None, ...]
) -> None:
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),), (PipelineSpec("p", tuple(steps)),))
    instance = Instance("t", 0, (), draws=len(outputs), gold="7")
    (found,) = document_scorer(scoring, "t").score(DOCUMENT, instance, outputs)
    assert tuple(each.answer for each in found.extractions[0]) == answers


@pytest.mark.parametrize("gold", ["1234.5", "1,234.50", "$1234.500", ("9", "1234.50")])
@pytest.mark.parametrize("metric", ["exact_match", "maj@2"])
def test_a_number_meets_the_right_answer_however_both_are_written(gold: Any, metric: str) -> None:
    pipeline = PipelineSpec("p", (NUMBER,) if metric == "maj@2" else (NUMBER, TAKE))
    scoring = Scoring("generate_until", (MetricSpec(metric),), (pipeline,))
    outputs = [Text("The answer is $1,234.50."), Text("So 1234.5")]
    draws = 2 if metric == "maj@2" else 1
    instance = Instance("t", 0, (), draws=draws, gold=gold)
    (found,) = document_scorer(scoring, "t").score(DOCUMENT, instance, outputs[:draws])
    assert found.values == {metric: 1.0}


def test_right_answers_of_other_pipelines_stay_as_they_are() -> None:
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),), (PipelineSpec("p", (TAKE,)),))
    (found,) = document_scorer(scoring, "t").score(DOCUMENT, Instance("t", 0, (), gold="7.0"), [Text("7")])
    assert found.values == {"exact_match": 0.0}


def test_a_pipeline_that_extracts_nothing_has_no_extractions() -> None:
    assert sample([TAKE], "B").extractions == ()


def test_offsets_are_those_in_the_models_text() -> None:
    text = "  \n The answer is B. "
    assert sample([FilterSpec("remove_whitespace"), LETTER, TAKE], text).extractions == (
        (Extraction("B", "letter_statement", 18, 19),),
    )
    assert sample([TAKE, LETTER], text).extractions == ((Extraction("B", "letter_statement", 18, 19),),)


def test_an_offset_that_is_ambiguous_is_unknown() -> None:
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
