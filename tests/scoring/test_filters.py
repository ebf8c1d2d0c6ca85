"""Filters: outputs in, outputs out."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import DataError, UnknownName, UserError
from assay.core.responses import Logprob
from assay.core.specs import FilterSpec
from assay.scoring.registry import FILTERS, make_filter

VERDICTS = {"choices": ["Guilty", "Guilty of Romance", "Not"]}


def apply(name: str, responses: list[Any], document: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    return make_filter(FilterSpec(name, options), "t")(responses, document or {})


def test_take_first_unwraps_the_first_draw() -> None:
    assert apply("take_first", [["a", "b"], ["c"]]) == ["a", "c"]


def test_take_first_k_keeps_lists() -> None:
    assert apply("take_first_k", [["a", "b", "c"], ["d", "e"]], k=2) == [["a", "b"], ["d", "e"]]


def test_take_first_k_refuses_too_few_draws() -> None:
    with pytest.raises(DataError, match="only 1 draw; expected 2. Set repeats: 2 or more"):
        apply("take_first_k", [["a", "b"], ["c"]], k=2)


def test_majority_wins_and_the_first_seen_wins_a_tie() -> None:
    assert apply("majority_vote", [["a", "b", "b"], ["y", "x", "x", "y"], ["z"]]) == [["b"], ["y"], ["z"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I have 5 and then 12.50 left", "12.50"),
        ("none", "[invalid]"),
        (None, "[invalid]"),
        ("", "[invalid]"),
        ("only 7", "7"),
    ],
)
def test_the_last_number_is_extracted_as_lm_eval_does(text: Any, expected: str) -> None:
    pattern = r"(-?[$0-9.,]{2,})|(-?[0-9]+)"
    assert apply("regex", [[text]], regex_pattern=pattern, group_select=-1) == [[expected]]


def test_regex_has_gsm8ks_pattern_by_default() -> None:
    assert apply("regex", [["so\n#### -1,234.5 ", "5"]]) == [["-1,234.5", "[invalid]"]]


def test_an_index_beyond_the_matches_is_not_an_answer() -> None:
    assert apply("regex", [["a1 b2"]], regex_pattern=r"\d", group_select=2, fallback="?") == [["?"]]
    assert apply("regex", [["a1 b2"]], regex_pattern=r"\d", group_select=-3) == [["[invalid]"]]
    assert apply("regex", [["a1 b2"]], regex_pattern=r"\d", group_select=1) == [["2"]]


def test_the_first_filled_group_counts() -> None:
    assert apply("regex", [["b", "c"]], regex_pattern=r"(a)?(b)?(c)?") == [["b", "c"]]
    assert apply("regex", [["zzz"]], regex_pattern=r"(a)?(b)?") == [["[invalid]"]]


def test_a_match_is_stripped_and_may_be_empty() -> None:
    assert apply("regex", [["x=  5 ;", "x=   ;"]], regex_pattern=r"x=([^;]*);") == [["5", ""]]


def test_after_take_first_the_letters_are_the_draws() -> None:
    """lm-eval's way, from which the numbers of polemo2_in come."""
    assert apply("lowercase", ["AB"]) == [["a", "b"]]
    assert apply("map", ["AB"], mapping_dict={"A": 1}, default_value="other") == [[1, "other"]]
    assert apply("take_first", ["AB", ""]) == ["A", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is (B).", "(B)"),
        ("it is guilty of romance!", "(B)"),
        ("simply guilty", "(A)"),
        ("Answer: C", "(C)"),
        ("Answer: D", "[invalid]"),
        ("zzz", "[invalid]"),
        (None, "[invalid]"),
    ],
)
def test_a_choice_is_extracted_as_lm_eval_does(text: Any, expected: str) -> None:
    options = {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "ignore_punctuation": True}
    assert apply("multi_choice_regex", [[text]], VERDICTS, **options) == [[expected]]


def test_the_index_counts_for_choices_and_letters_too() -> None:
    options = {"regex_pattern": r"(\([A-Z]\))", "group_select": -1}
    said = ["first Guilty, at last Not", "x: A y: B", "(A) or (C)"]
    assert apply("multi_choice_regex", [said], VERDICTS, **options) == [["(C)", "(B)", "(C)"]]


def test_blanks_around_a_choice_are_not_looked_for() -> None:
    assert apply("multi_choice_regex", [["it is red."]], {"choices": [" blue", " red "]}) == [["(B)"]]


def test_a_choice_of_which_nothing_is_left_is_never_found() -> None:
    document = {"choices": ["!!!", "yes"]}
    assert apply("multi_choice_regex", [["yes", "no"]], document, ignore_punctuation=True) == [["(B)", "[invalid]"]]


def test_regexes_to_ignore_are_taken_from_both_sides() -> None:
    document = {"choices": ["the cat", "a dog"]}
    options = {"regexes_to_ignore": [r"\bthe ", r"\ba "]}
    assert apply("multi_choice_regex", [["dog", "cat"]], document, **options) == [["(B)", "(A)"]]


def test_choices_are_needed() -> None:
    with pytest.raises(DataError, match="no column choices"):
        apply("multi_choice_regex", [["x"]], {"options": []})


def test_no_choices_at_all_find_nothing() -> None:
    assert apply("multi_choice_regex", [["x: A"]], {"choices": []}) == [["[invalid]"]]


def test_white_space_and_case_are_changed_per_draw() -> None:
    assert apply("remove_whitespace", [[" a b\n", "c"]]) == [["a b", "c"]]
    assert apply("lowercase", [["AbÜ", "C"]]) == [["abü", "c"]]
    assert apply("uppercase", [["aß"]]) == [["ASS"]]


@pytest.mark.parametrize("name", ["remove_whitespace", "lowercase", "uppercase"])
def test_what_is_not_a_text_passes_unchanged(name: str) -> None:
    logprob = Logprob(-1.0, 1, False)
    assert apply(name, [[logprob, None]]) == [[logprob, None]]


def test_map_looks_up_and_falls_back() -> None:
    assert apply("map", [["a", "z"]], mapping_dict={"a": "1"}, default_value="?") == [["1", "?"]]
    assert apply("map", [["a"]]) == [[None]]


# The expected texts of the next two are what lm-eval 0.4.13 gives.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PERSON: Ann Lee, Bob $$ Location: Kenya$$", "per: ann lee $ per: bob $ loc: kenya"),
        ("per: none\nDate: monday, NONE", "date: monday"),
        ("organization : ACME $$ people: x, y", "org: acme $ per: x $ per: y"),
        ("nothing", ""),
        ("time:5pm $ person: a", "date: 5pm $ per: a"),
    ],
)
def test_entities_are_written_in_one_way(text: str, expected: str) -> None:
    assert apply("format_span", [[text]]) == [[expected]]


def test_tags_are_collected() -> None:
    said = ["[('The', 'DET'), ('cat', 'NOUN')]", "x"]
    assert apply("regex_pos", [said]) == [[["DET", "NOUN"], ["invalid"]]]
    assert apply("regex_pos", [["x", None]], fallback=["?"]) == [[["?"], ["?"]]]


def test_a_function_of_the_task_gets_every_question_with_its_document() -> None:
    def numbered(responses: list[Any], documents: list[Any]) -> Any:
        return (f"{document['n']}{draws[0]}" for draws, document in zip(responses, documents, strict=True))

    assert apply("custom", [["a"], ["b"]], {"n": 7}, filter_fn=numbered) == ["7a", "7b"]


def test_a_function_is_needed() -> None:
    with pytest.raises(UserError, match=r'filter "custom" does not take .*filter_fn must be a function'):
        make_filter(FilterSpec("custom", {"filter_fn": "utils.strip"}), "t.yaml")


def test_decontamination_is_refused_as_the_stub_it_is() -> None:
    with pytest.raises(UserError, match="filter decontaminate: is a stub in lm-eval.*Remove it from filter_list"):
        make_filter(FilterSpec("decontaminate", {"path": "x"}), "t.yaml")


class Shouting:
    """A filter class as task files bring it: made with the settings, called once for all questions."""

    def __init__(self, mark: str = "!") -> None:
        self.mark = mark

    def apply(self, resps: Any, docs: Any) -> Any:
        return ([draw.upper() + self.mark for draw in draws] for draws in resps)


def test_a_class_of_the_task_is_made_with_its_settings() -> None:
    made = make_filter(FilterSpec("Shouting", {"mark": "?"}, Shouting), "t")
    assert made([["a", "b"], ["c"]], {}) == [["A?", "B?"], ["C?"]]


def test_wrong_settings_of_a_class_are_the_users_error() -> None:
    with pytest.raises(UserError, match='t.yaml: filter "Shouting" does not take'):
        make_filter(FilterSpec("Shouting", {"volume": 11}, Shouting), "t.yaml")


def test_an_unknown_filter_is_named() -> None:
    with pytest.raises(UnknownName, match=r't.yaml: unknown filter "regx" \(did you mean "regex"'):
        make_filter(FilterSpec("regx"), "t.yaml")


@pytest.mark.parametrize("options", [{"regex_patern": "x"}, {"regex_pattern": "("}])
def test_wrong_settings_are_the_users_error(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match='t.yaml: filter "regex" does not take'):
        make_filter(FilterSpec("regex", options), "t.yaml")


def test_every_filter_of_the_table_exists() -> None:
    assert all(callable(FILTERS.get(name)) for name in FILTERS.table)
