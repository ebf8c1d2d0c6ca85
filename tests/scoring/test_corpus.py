"""BLEU, chrF, chrF++ and TER over a corpus, against sacrebleu's public functions and lm-eval's numbers."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest
import sacrebleu

from assay.core.errors import UserError
from assay.core.scores import Sample
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.metrics.aggregations import AGGREGATIONS

ITEMS = [
    ["the cat sat on the mat", "the cat sat on a mat"],
    ["a dog runs in the park", "the dog runs in a park"],
    ["it is raining today", "it rains today"],
    ["hello world", "hello there world"],
]
SEVERAL = [
    (["the cat sat on the mat", "a cat was on the mat"], "the cat was on a mat"),
    (["he runs home", "he is running home"], "he is running to home"),
    (["yes", "yes indeed"], "yes indeed so"),
]
PUBLIC: dict[str, Callable[..., Any]] = {
    "bleu": sacrebleu.corpus_bleu,
    "chrf": sacrebleu.corpus_chrf,
    "chrf++": lambda said, references: sacrebleu.corpus_chrf(said, references, word_order=2),
    "ter": sacrebleu.corpus_ter,
}
# Probed from lm-eval 0.4.13: the score and bootstrap error (100 resamples) of ITEMS, the score of SEVERAL.
PROBED = {
    "bleu": (34.926710282900494, 12.262906667801962, 32.88046464444611),
    "chrf": (54.55811300924338, 6.333120249319121, 72.80062447123609),
    "chrf++": (55.800192368102294, 7.165831417738937, 73.35440058782655),
    "ter": (33.33333333333333, 7.669807709166098, 36.36363636363637),
}


def score(name: str, values: list[Any]) -> float | None:
    return AGGREGATIONS[name].estimate(AGGREGATIONS[name].read(values)).value


def generated(seed: int, n: int = 40) -> list[list[str]]:
    """Pairs of texts that share most of their words."""
    draw = random.Random(seed)
    words = ["a", "b", "c", "d", "e", "f", "g", "the", "of,", "and.", "(it)", "isn't", "12.5", "%"]
    texts = [[draw.choice(words) for _ in range(draw.randint(0, 12))] for _ in range(n)]
    return [[" ".join(text), " ".join(word for word in text if draw.random() < 0.8)] for text in texts]


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("seed", range(5))
def test_the_score_is_sacrebleus(name: str, seed: int) -> None:
    items = generated(seed)
    expected = PUBLIC[name]([said for _, said in items], [[right for right, _ in items]]).score
    assert score(name, items) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PUBLIC)
def test_score_and_error_are_lm_evals(name: str) -> None:
    value, error, several = PROBED[name]
    scoring = Scoring("generate_until", (MetricSpec(name),))
    samples = [Sample(place, "none", (), {name: item}) for place, item in enumerate(ITEMS)]
    found = aggregate_task(scoring, samples, 100_000)[0]
    assert found.estimate.value == pytest.approx(value, abs=1e-9)
    assert found.harness_stderr == pytest.approx(error, rel=1e-9)
    assert score(name, SEVERAL) == pytest.approx(several, abs=1e-9)


@pytest.mark.parametrize("name", PUBLIC)
def test_resamples_are_scored_like_corpora_of_their_own(name: str) -> None:
    items, stream = generated(7, 12), random.Random(0)
    replicates = []
    for _ in range(30):
        drawn = stream.choices(items, k=len(items))
        replicates.append(PUBLIC[name]([said for _, said in drawn], [[right for right, _ in drawn]]).score)
    found = AGGREGATIONS[name].harness_stderr(AGGREGATIONS[name].read(items), 30)
    assert found == pytest.approx(statistics.stdev(replicates), rel=1e-9)


@pytest.mark.parametrize("name", PUBLIC)
def test_our_interval_holds_the_score_and_is_the_same_each_time(name: str) -> None:
    first, second = (AGGREGATIONS[name].estimate(AGGREGATIONS[name].read(generated(3))) for _ in range(2))
    assert first == second
    assert first.value is not None and first.low is not None and first.high is not None
    assert first.low <= first.value <= first.high
    assert (first.method, first.n) == ("bootstrap", 40)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_document_keeps_all_of_its_references(name: str) -> None:
    items = [*SEVERAL, ("only one", "only one")]
    streams = [[item[0][place] if place < len(item[0]) else None for item in SEVERAL] for place in (0, 1)]
    expected = PUBLIC[name]([said for _, said in items], [[*streams[0], "only one"], [*streams[1], None]]).score
    assert score(name, items) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PUBLIC)
def test_one_document_has_no_error(name: str) -> None:
    read = AGGREGATIONS[name].read(ITEMS[:1])
    assert AGGREGATIONS[name].estimate(read).stderr is None
    assert AGGREGATIONS[name].harness_stderr(read, 100) is None


def test_one_draw_may_be_in_a_list() -> None:
    assert score("bleu", [["a b c d", ["a b c d"]]]) == pytest.approx(100.0)


@pytest.mark.parametrize(
    "value", [1.0, "text", ["a", None], ["a", ["b", "c"]], [[], "a"], [None, "a"], ["a", "b", "c"]]
)
def test_other_values_are_the_users_error(value: Any) -> None:
    scoring = Scoring("generate_until", (MetricSpec("bleu"),))
    with pytest.raises(UserError, match='task t, metric "bleu": .*expected \\[right text or texts, generated text\\]'):
        aggregate_task(scoring, [Sample(0, "none", (), {"bleu": value})], 0, "task t")


def test_counting_a_corpus_is_reported_and_done_once() -> None:
    heard: list[int] = []
    read = AGGREGATIONS["bleu"].read([(["a b c d"], "a b c e")] * 250)
    for _ in range(2):
        AGGREGATIONS["bleu"].harness_stderr(read, 0, lambda what, done, total: heard.append(done))
    assert heard == [100, 200, 250]
