"""Code of task files: what it is shown, how it is called, how its errors look."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.errors import UserError
from assay.core.requests import Generation, Instance, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Logprob, Output, Text
from assay.core.scores import Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.document_scorer import document_scorer

DOCUMENT = Document("t", 7, {"q": "?", "tags": ["x"]})
FIRST = FilterSpec("take_first")
SAID = [Text("b")]


def instance(*requests: Request, draws: int = 1, gold: Any = None, choices: tuple[str, ...] = ()) -> Instance:
    return Instance("t", 7, requests, draws=draws, gold=gold, choices=choices)


def generated(*metrics: MetricSpec, steps: tuple[FilterSpec, ...] = (FIRST,)) -> Scoring:
    return Scoring("generate_until", metrics, (PipelineSpec("p", steps),))


def values_of(scoring: Scoring, gold: Any = "b", outputs: list[Output] | None = None, draws: int = 1) -> dict[str, Any]:
    built = Instance("t", 7, (), draws=draws, gold=gold)
    return document_scorer(scoring, "task t").score(DOCUMENT, built, outputs or SAID)[0].values


class Recorder:
    """A filter of a task that keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    def apply(self, resps: list[Any], docs: list[Any]) -> Any:
        self.seen.append((resps, docs))
        return iter(resps)


# Outputs as task code sees them

PAIR, ROLLING, ASKED = Loglikelihood("a", "b"), RollingLoglikelihood("a"), Generation("a")
LIKELY = Logprob(-2.5, 3, True)


@pytest.mark.parametrize(
    ("request_", "output", "expected"),
    [(PAIR, LIKELY, (-2.5, True)), (ROLLING, LIKELY, -2.5), (ASKED, Text("hi"), "hi")],
)
def test_outputs_are_shown_as_lm_eval_has_them(request_: Request, output: Output, expected: Any) -> None:
    recorder = Recorder()
    scoring = Scoring(
        "generate_until",
        (),
        (PipelineSpec("p", (FilterSpec("own", factory=lambda: recorder), FIRST)),),
        process=lambda fields, results: {"seen": results},
    )
    sample = document_scorer(scoring, "t").score(DOCUMENT, instance(request_), [output])[0]
    assert recorder.seen == [([[expected]], [dict(DOCUMENT.fields)])]
    assert sample.values == {"seen": [expected]}


def test_kinds_may_be_mixed_in_a_document() -> None:
    scoring = Scoring("generate_until", (), process=lambda fields, results: {"seen": results})
    built = instance(ASKED, PAIR, ROLLING)
    sample = document_scorer(scoring, "t").score(DOCUMENT, built, [Text("hi"), LIKELY, LIKELY])[0]
    assert sample.values == {"seen": ["hi", (-2.5, True), -2.5]}
    assert sample.filtered == ("hi", LIKELY, LIKELY)


def test_draws_are_shown_in_their_lists() -> None:
    scoring = Scoring("loglikelihood", (), (PipelineSpec("all", ()),), process=lambda fields, results: {"n": results})
    built = instance(PAIR, PAIR, ROLLING, ROLLING, draws=2)
    sample = document_scorer(scoring, "t").score(DOCUMENT, built, [LIKELY] * 4)[0]
    assert sample.values == {"n": [[(-2.5, True), (-2.5, True)], [-2.5, -2.5]]}


def test_our_own_metrics_still_read_what_a_tasks_filter_left() -> None:
    for steps in ((FilterSpec("own", factory=Recorder), FIRST), (FIRST, FilterSpec("own", factory=Recorder))):
        scoring = Scoring(
            "multiple_choice", (MetricSpec("acc"), MetricSpec("exact_match")), (PipelineSpec("p", steps),)
        )
        built = instance(PAIR, PAIR, gold=1, choices=("a", "b"))
        outputs = [Logprob(-3.0, 1, False), Logprob(-1.0, 1, True)]
        sample = document_scorer(scoring, "t").score(DOCUMENT, built, outputs)[0]
        assert sample.values == {"acc": 1.0, "exact_match": 1.0}
        assert sample.filtered == ((-3.0, False), (-1.0, True))


def test_whole_texts_too() -> None:
    steps = (FilterSpec("own", factory=Recorder), FIRST)
    scoring = Scoring("loglikelihood_rolling", (MetricSpec("byte_perplexity"),), (PipelineSpec("p", steps),))
    built = Instance("t", 7, (ROLLING,), target="abc")
    sample = document_scorer(scoring, "t").score(DOCUMENT, built, [LIKELY])[0]
    assert sample.values == {"byte_perplexity": (-2.5, 3)}


def test_what_is_not_a_likelihood_is_the_users_error() -> None:
    steps = (FIRST, FilterSpec("custom", {"filter_fn": lambda resps, docs: ["?" for _ in resps]}))
    scoring = Scoring("loglikelihood", (MetricSpec("acc"),), (PipelineSpec("p", steps),))
    with pytest.raises(UserError, match="t, filter p, document 7: the task's filter returned '\\?' for a question"):
        document_scorer(scoring, "t").score(DOCUMENT, instance(PAIR), [LIKELY])


# Filters of tasks


def test_a_filter_object_is_made_once_per_pipeline() -> None:
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    scorer = document_scorer(generated(steps=(FilterSpec("own", factory=factory), FIRST)), "t")
    for _ in range(3):
        scorer.score(DOCUMENT, instance(gold="b"), SAID)
    assert [len(recorder.seen) for recorder in made] == [3]


def test_a_filter_cannot_change_our_document() -> None:
    def meddle(resps: list[Any], docs: list[Any]) -> list[Any]:
        docs[0]["q"] = "changed"
        return resps

    values_of(generated(steps=(FilterSpec("custom", {"filter_fn": meddle}), FIRST)))
    assert DOCUMENT.fields["q"] == "?"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda resps, docs: docs[0]["missing"], "raised KeyError: 'missing'"),
        (lambda resps, docs: [], "raised ValueError: returned 0 results for 1 question"),
        (lambda resps, docs: None, "raised TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_a_filter_that_raises_is_named(function: Any, message: str) -> None:
    steps = (FilterSpec("custom", {"filter_fn": function}), FIRST)
    with pytest.raises(UserError, match=f'task t, filter p, document 7: filter "custom" {message}') as caught:
        values_of(generated(steps=steps))
    assert caught.value.__cause__ is not None


def test_a_fallback_of_a_tasks_filter_is_known() -> None:
    class Finder:
        fallback = "[invalid]"

        def apply(self, resps: list[Any], docs: list[Any]) -> list[Any]:
            return [[draw if draw.isdigit() else self.fallback for draw in draws] for draws in resps]

    scorer = document_scorer(generated(steps=(FilterSpec("own", factory=Finder), FIRST)), "t")
    assert scorer.extracting_pipelines == ("p",)
    found = [scorer.is_unparsed(scorer.score(DOCUMENT, instance(gold="5"), [Text(said)])[0]) for said in ("5", "b")]
    assert found == [False, True]


def test_a_fallback_among_the_settings_is_known_too() -> None:
    class Finder:
        def __init__(self, fallback: str) -> None:
            self.other = fallback

        def apply(self, resps: list[Any], docs: list[Any]) -> list[Any]:
            return [[self.other] for _ in resps]

    steps = (FilterSpec("own", {"fallback": "none"}, Finder), FIRST)
    scorer = document_scorer(generated(steps=steps), "t")
    assert scorer.is_unparsed(scorer.score(DOCUMENT, instance(gold="5"), SAID)[0])


def test_missing_tags_are_unparsed() -> None:
    scorer = document_scorer(generated(steps=(FilterSpec("regex_pos"), FIRST)), "t")
    found = [
        scorer.is_unparsed(scorer.score(DOCUMENT, instance(gold="5"), [Text(said)])[0])
        for said in ("x", "('a', 'DET')")
    ]
    assert found == [True, False]


# The task's own scoring


def test_a_tasks_own_scoring_gets_a_fresh_document_each_time() -> None:
    def process(fields: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        fields["tags"].append(results[0])
        return {"acc": len(fields["tags"])}

    pipelines = (PipelineSpec("a", (FIRST,)), PipelineSpec("b", (FIRST,)))
    scorer = document_scorer(Scoring("generate_until", (MetricSpec("acc"),), pipelines, process), "t")
    samples = scorer.score(DOCUMENT, instance(gold="b"), SAID)
    assert [sample.values for sample in samples] == [{"acc": 2}, {"acc": 2}]
    assert DOCUMENT.fields["tags"] == ["x"]


def test_what_cannot_be_copied_is_shared() -> None:
    kept = (line for line in "ab")
    scorer = document_scorer(Scoring("generate_until", (), process=lambda fields, results: fields), "t")
    sample = scorer.score(Document("t", 0, {"lines": kept}), instance(), SAID)[0]
    assert sample.values["lines"] is kept


def test_metrics_of_a_task_that_scores_itself_may_have_any_name() -> None:
    scoring = Scoring(
        "multiple_choice", (MetricSpec("libra_score"), MetricSpec("bleu")), process=lambda f, r: {4096: 1}
    )
    built = instance(PAIR)
    assert document_scorer(scoring, "t").score(DOCUMENT, built, [LIKELY])[0].values == {"4096": 1}


def test_a_scoring_that_raises_is_named_with_its_document() -> None:
    def process(fields: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        raise ZeroDivisionError("no words")

    with pytest.raises(UserError, match="task t, document 7: process_results raised ZeroDivisionError: no w") as caught:
        values_of(Scoring("generate_until", (), process=process))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_scoring_that_gives_no_mapping_is_named() -> None:
    with pytest.raises(UserError, match="task t, document 7: process_results returned 1.0; expected a mapping"):
        values_of(Scoring("generate_until", (), process=lambda fields, results: 1.0))  # type: ignore[arg-type,return-value]


# Metrics of tasks. The calling conventions and their results were probed from lm-eval 0.4.13.


def named(predictions: list[Any], references: list[Any]) -> int:
    return int(predictions == references)


def passed_through(items: list[Any]) -> list[Any]:
    return items


def with_setting(references: list[Any], predictions: list[Any], k: int = 1) -> int:
    return k if references == predictions else 0


def anything(*positional: Any, **named: Any) -> Any:
    return passed_through(*positional, **named)


class Callable_:  # noqa: N801
    def __call__(self, references: list[Any], predictions: list[Any]) -> float:
        return 0.25


@functools.wraps(passed_through)
def wrapped(*positional: Any, **named: Any) -> Any:
    return passed_through(*positional, **named)


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (named, {}, 1),
        (passed_through, {}, ["b", "b"]),
        (passed_through, {"ignored": True}, ["b", "b"]),
        (with_setting, {"k": 5}, 5),
        (anything, {}, ["b", "b"]),
        (wrapped, {}, ["b", "b"]),
        (Callable_(), {}, 0.25),
        (functools.partial(with_setting, k=3), {}, 3),
        (len, {}, 2),
        (lambda references, predictions, **rest: sorted(rest), {"z": 1, "a": 2}, ["a", "z"]),
    ],
)
def test_a_metric_is_called_as_it_wants(function: Any, options: dict[str, Any], expected: Any) -> None:
    assert values_of(generated(MetricSpec("m", options=options, function=function))) == {"m": expected}


def test_a_mistake_in_a_metric_is_not_taken_for_another_way_to_call_it() -> None:
    def wrong(references: list[Any], predictions: Any = None) -> Any:
        return references[0] + 1

    with pytest.raises(UserError, match='task t, document 7: metric "m" raised TypeError: can only concatenate str'):
        values_of(generated(MetricSpec("m", function=wrong)))


def pass_at_k(references: list[Any], predictions: list[Any], k: list[int]) -> dict[str, float]:
    return {f"pass@{n}": float(references[0] in predictions[0][:n]) for n in k}


def test_a_metric_may_give_several_values() -> None:
    spec = MetricSpec("pass_at_k", "median", False, {"k": [1, 2]}, pass_at_k)
    scoring = generated(spec, MetricSpec("exact_match"), steps=())
    found = values_of(scoring, outputs=[Text("a"), Text("b")], draws=2)
    assert found == {"pass@1": 0.0, "pass@2": 1.0, "exact_match": 0.5}
    results = aggregate_task(scoring, [Sample(0, "p", (), found)], 0)
    assert [(m.metric, m.estimate.value, m.estimate.method, m.higher_is_better) for m in results] == [
        ("exact_match", 0.5, "t", True),
        ("pass@1", 0.0, "bootstrap", False),
        ("pass@2", 1.0, "bootstrap", False),
    ]


def test_any_of_several_right_answers_counts_as_one() -> None:
    half = MetricSpec("m", function=lambda references, predictions: 0.5 * (references == predictions))
    assert values_of(generated(half), gold=("a", "b")) == {"m": 1.0}
    assert values_of(generated(half), gold=("a", "c")) == {"m": 0.0}
    several = MetricSpec("m", function=lambda references, predictions: {"m": 0.0, "other": 1.0})
    assert values_of(generated(several), gold=("a", "b")) == {"m": 0.0}


def test_the_right_answer_has_the_type_of_the_result() -> None:
    steps = (FilterSpec("map", {"mapping_dict": {"b": 3}}), FIRST)
    assert values_of(generated(MetricSpec("m", function=passed_through), steps=steps), gold="3") == {"m": [3, 3]}
    assert values_of(generated(MetricSpec("m", function=passed_through), steps=steps), gold="x") == {"m": ["x", 3]}


def test_a_function_goes_before_a_known_metric_of_its_name() -> None:
    assert values_of(generated(MetricSpec("bleu", function=lambda predictions, references: 0.5))) == {"bleu": 0.5}


def test_for_choices_only_the_name_of_a_function_counts() -> None:
    spec = MetricSpec("acc", function=lambda references, predictions: 99)
    built = instance(PAIR, PAIR, gold=0, choices=("a", "b"))
    scorer = document_scorer(Scoring("multiple_choice", (spec,)), "t")
    assert scorer.score(DOCUMENT, built, [LIKELY, LIKELY])[0].values == {"acc": 1.0}


def test_a_document_that_scoring_changes_is_kept_as_it_was_left_and_ours_stays() -> None:
    def process(doc: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        doc["tags"].append(results[0])
        return {"acc": 1.0}

    scoring = Scoring("generate_until", (MetricSpec("acc"),), (PipelineSpec("p", (FIRST,)),), process)
    (sample,) = document_scorer(scoring, "task t").score(DOCUMENT, Instance("t", 7, ()), SAID)
    assert sample.document == {"q": "?", "tags": ["x", "b"]}
    assert DOCUMENT.fields == {"q": "?", "tags": ["x"]}
