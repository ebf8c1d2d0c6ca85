"""SQuAD's metrics, on cases computed by hand."""

from __future__ import annotations

import pytest

from assay.core.requests import Generation, Instance
from assay.scoring.registry import metric_definition
from assay.scoring.scorers.generated_answer import answer_view
from assay.stats.squad_tokens import normalised


def scores(said: str | list[str], *golds: str, **options: str) -> tuple[float, float]:
    view = answer_view(Instance("t", 0, (Generation("q"),), gold=golds), [said])
    em, f1 = (metric_definition(name).values["generate_until"] for name in ("squad_em", "squad_f1"))
    return em(view, options), f1(view, options)


def test_normalisation() -> None:
    assert normalised(" The  Quick, brown-fox's  an A.\n") == "quick brownfoxs"
    assert normalised("Theatre another") == "theatre another"


@pytest.mark.parametrize(
    ("said", "golds", "em", "f1"),
    [
        ("The Cat!", ("cat",), 1.0, 1.0),
        # 2 shared words of 3 and 2: precision 2/3, recall 1.
        ("the big red cat", ("red cat",), 0.0, 0.8),
        # "to be or" and "be not to be": bags share to, be: precision 2/3, recall 2/4.
        ("to be or", ("be not to be",), 0.0, 4 / 7),
        ("dog", ("cat", "dog house"), 0.0, 2 / 3),
        ("dog", ("cat", "dog"), 1.0, 1.0),
        ("dog", ("cat",), 0.0, 0.0),
        ("", ("cat",), 0.0, 0.0),
        ("", (), 1.0, 1.0),
        ("the", (), 1.0, 1.0),
        ("cat", (), 0.0, 0.0),
    ],
)
def test_squad(said: str, golds: tuple[str, ...], em: float, f1: float) -> None:
    assert scores(said, *golds) == (em, pytest.approx(f1, abs=1e-15))


def test_words_for_no_answer() -> None:
    assert scores(" Unanswerable.", no_answer="unanswerable") == (1.0, 1.0)
    assert scores("unanswerable") == (0.0, 0.0)
    assert scores("unanswerable", "cat", no_answer="unanswerable") == (0.0, 0.0)


def test_several_draws_are_averaged() -> None:
    assert scores(["cat", "dog"], "cat") == (0.5, 0.5)


@pytest.mark.parametrize(
    ("said", "right", "f1"),
    [
        ("law, politics", "politics, law", 1.0),
        ("law, law ,politics,", "law", 2 / 3),
        ("Law", "law", 0.0),
        ("", "law", 0.0),
        # One of two items on one side, one of three on the other.
        ("law, trade", "law, energy, science", 2 / 5),
    ],
)
def test_f1_of_lists(said: str, right: str, f1: float) -> None:
    view = answer_view(Instance("t", 0, (Generation("q"),), gold=right), [said])
    value = metric_definition("set_f1").values["generate_until"]
    assert value(view, {}) == pytest.approx(f1)
    assert (
        value(answer_view(Instance("t", 0, (Generation("q"),), gold=("a", "b")), ["b; a"]), {"separator": ";"}) == 1.0
    )
