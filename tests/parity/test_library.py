"""The comparison of the library with lm-eval: what counts as a difference, and what is said of the rest."""

import dataclasses

import pytest

from parity.compare import ABSENT, Difference, RecordComparison, Tolerance, with_their_names
from parity.library import Pair, compare_library, record_library
from parity.table import BOTH_FAIL, DIFFERENT, SAME, Outcome

RECORD = {
    "task": "t",
    "case": "own shots",
    "shots": 0,
    "version": 1.0,
    "higher_is_better": {"math_match": True},
    "results": {"math_match,none": 0.5, "math_match_stderr,none": 0.1, "alias": "t"},
    "samples": [
        {
            "id": 0,
            "filter": "none",
            "target": "4",
            "responses": [["4"]],
            "filtered": ["4"],
            "values": {"math_match": 1},
        }
    ],
}


@pytest.fixture
def compared(monkeypatch):
    """Compares a pair whose outcomes are given: of requests, then of scores."""

    def compare(pair, requests, scores):
        found = iter([requests, scores])
        monkeypatch.setattr("parity.library.outcomes", lambda *_: next(found))
        (comparison,) = compare_library([pair], [None, None], [None, None])
        return comparison

    return compare


def outcome(status, *differences, case="own shots", error=None):
    return Outcome("t", case, status, documents=4, differences=list(differences), reference_error=error)


def difference(field, reference, ours, document=None):
    return Difference("t", "own shots", document, field, reference, ours)


def test_metrics_take_the_names_that_the_card_gives_them():
    theirs = with_their_names(RECORD, {"math_match": "exact_match"})
    assert theirs["results"] == {"exact_match,none": 0.5, "exact_match_stderr,none": 0.1, "alias": "t"}
    assert theirs["higher_is_better"] == {"exact_match": True}
    assert theirs["samples"][0]["values"] == {"exact_match": 1}
    assert RecordComparison(theirs, RECORD, Tolerance()).differences()


def test_a_failed_record_keeps_its_error():
    assert with_their_names({"error": "x"}, {"a": "b"}) == {"error": "x"}
    assert with_their_names(None, {"a": "b"}) is None


def test_added_metrics_and_pipelines_are_no_difference(compared):
    added = [difference("none: f1", ABSENT, 1, 0), difference("stripped: sample", None, "there", 0)]
    found = compared(Pair("t", "t"), [outcome(SAME)], [outcome(DIFFERENT, *added)])
    assert (found.prompts, found.scores, found.is_fault) == ("equal", "equal", False)


def test_another_value_is_a_difference(compared):
    other = difference("results: acc,none", 0.5, 0.25)
    found = compared(Pair("t", "t"), [outcome(SAME)], [outcome(DIFFERENT, other)])
    assert (found.scores, found.is_fault) == ("1 differ", True)
    assert "results: acc,none" in found.remark


def test_metrics_that_differ_as_stated_are_left_out_with_their_parts(compared):
    others = [difference("results: bias,none", 0.0, -1.0), difference("results: bias_Age,none", 0.0, -1.0)]
    found = compared(Pair("t", "t", apart=("bias",)), [outcome(SAME)], [outcome(DIFFERENT, *others)])
    assert found.scores == "equal"
    found = compared(Pair("t", "t", apart=("bi",)), [outcome(SAME)], [outcome(DIFFERENT, *others)])
    assert found.scores == "1 differ"


def test_a_case_that_cannot_be_built_is_a_remark_without_the_places_of_one_machine(compared):
    failed = outcome(
        BOTH_FAIL, case="3 shots", error="ValueError: no file /data/some/place/rows.jsonl at http://127.0.0.1:8000/x"
    )
    found = compared(Pair("t", "t"), [outcome(SAME), failed], [outcome(SAME)])
    assert (found.prompts, found.scores) == ("equal", "equal")
    assert found.remark == "3 shots: both fail: ValueError: no file rows.jsonl at /x"
    nothing = compared(Pair("t", "t"), [failed], [dataclasses.replace(failed)])
    assert (nothing.prompts, nothing.scores) == ("–", "–")


def test_the_record_leaves_out_what_differs_as_stated(compared, tmp_path):
    stated = compared(Pair("a", "t", differs="names"), [outcome(SAME)], [outcome(SAME)])
    equal = compared(Pair("b", "t"), [outcome(SAME)], [outcome(SAME)])
    record_library([stated, equal], tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text(encoding="utf-8")
    assert '"b"' in text and '"a"' not in text
