"""The door for values from models: plain values come out, or a failure that says what was wrong."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy
import pytest

from assay.core.output_checks import check_answer, is_above_probability_one, matches_request
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Generation,
    Loglikelihood,
    Request,
    RollingLoglikelihood,
)
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text, flatten, unflatten

ASKED = Loglikelihood("q", " a")
WRITTEN = Generation("q")
LABELLED = Classification("A fine film.", ("bad", "good"))


def plain_types(output: Output) -> set[type]:
    values = [getattr(output, name) for name in output.__slots__]
    return {type(value) for value in [*values, *getattr(output, "notes", ()), *getattr(output, "scores", ())]}


@pytest.mark.parametrize(
    ("answer", "request_"),
    [
        (Logprob(-1.5, 2, True), ASKED),
        (Logprob(-0.0, 0, False, 3, 4), RollingLoglikelihood("text")),
        (Logprob(-1.5, 2, True, notes=("double_bos",), windows=3), ASKED),
        (Text("ü \ud800", "length", 3), WRITTEN),
        (LabelScores((-0.1, -2.0), 5), LABELLED),
        (Failure("too_long", "too long", False), ASKED),
    ],
)
def test_a_plain_answer_passes_as_it_is(answer: Output, request_: Request) -> None:
    assert check_answer(answer, request_) == answer


@pytest.mark.parametrize("number", [numpy.float32(-1.5), numpy.float64(-1.5), numpy.array(-1.5), Decimal("-1.5")])
def test_numbers_of_libraries_become_python_numbers(number: Any) -> None:
    odd = Logprob(number, numpy.int64(1), numpy.bool_(True), numpy.uint8(3), numpy.int32(0), [numpy.str_("n")])  # type: ignore[arg-type]
    found = check_answer(odd, ASKED)
    assert found == Logprob(-1.5, 1, True, 3, 0, ("n",)) == unflatten(flatten(found))  # type: ignore[arg-type]
    assert plain_types(found) <= {float, int, bool, tuple, str, type(None)}  # type: ignore[arg-type]


def test_tensors_become_python_numbers() -> None:
    torch = pytest.importorskip("torch")
    odd = Logprob(torch.tensor(-0.5), torch.tensor(4), torch.tensor(False))
    found = check_answer(odd, ASKED)
    assert found == Logprob(-0.5, 4, False) and plain_types(found) <= {float, int, bool, tuple, type(None)}  # type: ignore[arg-type]
    scores = check_answer(LabelScores(torch.tensor([-0.5, -1.0])), LABELLED)
    assert scores == LabelScores((-0.5, -1.0)) and plain_types(scores) <= {float, int, tuple}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "request_", "kind", "message"),
    [
        (Logprob("-1.0", 1, True), ASKED, "invalid", "total='-1.0' (str); expected a number"),
        (Logprob(None, 1, True), ASKED, "invalid", "total=None"),
        (Logprob(True, 1, True), ASKED, "invalid", "total=True"),
        (Logprob(10**400, 1, True), ASKED, "invalid", "expected a number"),
        (Logprob(math.nan, 1, True), ASKED, "not_finite", "log-likelihood nan"),
        (Logprob(math.inf, 1, True), ASKED, "not_finite", "log-likelihood inf"),
        (Logprob(0.5, 1, True), ASKED, "positive_logprob", "log-likelihood 0.5; expected at most 0"),
        (Logprob(-1.0, -1, True), ASKED, "invalid", "token_count=-1 (int); expected a whole number from 0 on"),
        (Logprob(-1.0, 1.5, True), ASKED, "invalid", "token_count=1.5"),
        (Logprob(-1.0, 2**63, True), ASKED, "invalid", "token_count=9223372036854775808"),
        (Logprob(-1.0, 1, True, prompt_tokens=None), ASKED, "invalid", "prompt_tokens=None"),
        (Logprob(-1.0, 1, True, truncated=b"\x01"), ASKED, "invalid", "truncated="),
        (Logprob(-1.0, 1, None), ASKED, "invalid", "is_greedy=None (NoneType); expected True or False"),
        (Logprob(-1.0, 1, "no"), ASKED, "invalid", "is_greedy='no'"),
        (Logprob(-1.0, 1, True, notes=(3,)), ASKED, "invalid", "notes=(3,)"),
        (Logprob(-1.0, 1, True, windows="two"), ASKED, "invalid", "windows='two'"),
        (Text(None), WRITTEN, "invalid", "text=None (NoneType); expected a str"),
        (Text(b"yes"), WRITTEN, "invalid", "text=b'yes' (bytes); expected a str"),
        (Text("yes", 3), WRITTEN, "invalid", "finish_reason=3"),
        (Text("yes", token_count="many"), WRITTEN, "invalid", "token_count='many'"),
        (LabelScores((-0.1,)), LABELLED, "invalid", "1 scores; expected 2"),
        (LabelScores(("a", "b")), LABELLED, "invalid", "scores="),
        (LabelScores(None), LABELLED, "invalid", "scores=None"),
        (LabelScores((-1.0, math.nan)), LABELLED, "not_finite", "nan"),
        (LabelScores((3.0, -1.0)), LABELLED, "positive_logprob", "3"),
        ((-1.0, True), ASKED, "invalid", "(-1.0, True) (tuple); expected a Logprob or a Failure"),
        (Text("yes"), ASKED, "invalid", "expected a Logprob"),
        (Logprob(-1.0, 1, True), WRITTEN, "invalid", "expected a Text"),
        (Logprob(-1.0, 1, True), ChoiceSelection("q", ("a", "b")), "invalid", "expected a LabelScores"),
        (None, WRITTEN, "invalid", "None (NoneType); expected a Text or a Failure"),
    ],
)
def test_a_value_that_cannot_be_stored_is_a_failure(answer: Any, request_: Request, kind: str, message: str) -> None:
    found = check_answer(answer, request_)
    assert isinstance(found, Failure) and found.kind == kind
    assert message in found.message and request_.kind in found.message


@pytest.mark.parametrize(
    ("given", "reason", "notes"),
    [
        (None, "stop", ()),
        ("max_tokens", "length", ()),
        ("end_turn", "eos", ()),
        ("content_filter", "stop", ("finish_reason content_filter",)),
    ],
)
def test_foreign_words_for_an_ending_become_ours(given: Any, reason: str, notes: tuple[str, ...]) -> None:
    assert check_answer(Text("yes", given), WRITTEN) == Text("yes", reason, notes=notes)


@pytest.mark.parametrize(("total", "tokens"), [(1e-9, 1), (5e-4, 1), (0.05, 100)])
def test_rounding_above_0_passes_as_it_is(total: float, tokens: int) -> None:
    assert check_answer(Logprob(total, tokens, True), ASKED) == Logprob(total, tokens, True)
    assert not is_above_probability_one(Logprob(total, tokens, True))


def test_a_probability_of_0_is_taken_and_noted() -> None:
    found = check_answer(Logprob(-math.inf, 1, False), ASKED)
    assert found == Logprob(-math.inf, 1, False, notes=("zero_probability",))
    assert check_answer(found, ASKED) == found
    scores = check_answer(LabelScores((0.0, -math.inf)), LABELLED)
    assert scores == LabelScores((0.0, -math.inf), notes=("zero_probability",))


def test_one_note_alone_is_not_taken_for_its_letters() -> None:
    assert check_answer(Logprob(-1.0, 1, True, notes="odd"), ASKED) == Logprob(-1.0, 1, True, notes=("odd",))  # type: ignore[arg-type]


def test_a_failure_of_a_model_becomes_text_that_can_be_stored() -> None:
    odd = Failure(None, ValueError("lone \ud800"), 1)  # type: ignore[arg-type]
    assert check_answer(odd, ASKED) == Failure("None", "lone \\ud800", True)


def test_a_subclass_is_stored_as_the_plain_output() -> None:
    class Own(Logprob):
        pass

    assert type(check_answer(Own(-1.0, 1, True), ASKED)) is Logprob


def test_a_value_that_cannot_be_shown_is_a_failure_all_the_same() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    found = check_answer(Broken(), ASKED)
    assert isinstance(found, Failure) and "Broken" in found.message


def test_outputs_suit_one_kind_of_request() -> None:
    assert matches_request(Logprob(-1.0, 1, True), ASKED) and matches_request(Text("x"), WRITTEN)
    assert matches_request(LabelScores((-1.0, -1.0)), LABELLED)
    assert not matches_request(Text("x"), ASKED) and not matches_request(Logprob(-1.0, 1, True), WRITTEN)
    assert not matches_request(LabelScores((-1.0,)), LABELLED)
