"""A comparison as text of several kinds."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import chain

from rich.cells import cell_len

from assay.core.scores import Estimate
from assay.studies.compare.compare_report import (
    comparison_data,
    comparison_junit,
    comparison_markdown,
    comparison_text,
    gate_lines,
)
from assay.studies.compare.compare_values import RunComparison, System, Uncompared
from assay.studies.paired.paired_values import (
    CompareOptions,
    EffectSize,
    Flip,
    OverallScore,
    PairedScore,
    RankedSystem,
    RankTable,
)

NASTY = 'a<b> & "c"\x00\x1b[31m|\ud800'


def made(label: str = "a") -> RunComparison:
    score = Estimate(0.5, 0.1, 0.3, 0.7, 10, "wilson")
    pair = PairedScore(
        "t",
        "acc",
        "none",
        True,
        True,
        label,
        "b",
        10,
        (0, 0),
        (score, score),
        Estimate(0.0, 0.1, -0.2, 0.2, 10, "newcombe"),
        "mcnemar",
        1.0,
        1.0,
        effect=EffectSize("odds_ratio", float("inf"), 1.0, float("inf")),
        run_differences=("model: x → y",),
        flips=(Flip(3, 0.0, 1.0, "why?"),),
        verdict=f"No difference was found between b and {label}.",
    )
    systems = (System(label, "r1", "x"), System("b", "r2", "y"))
    return RunComparison(CompareOptions(), systems, (pair,), (), (), 1, ("a note",), pair.verdict)


def test_json_knows_no_infinity() -> None:
    text = json.dumps(comparison_data(made()), allow_nan=False)
    assert json.loads(text)["pairs"][0]["effect"] == {"name": "odds_ratio", "value": None, "low": 1.0, "high": None}


def test_halves_of_characters_can_be_written() -> None:
    json.dumps(comparison_data(made(NASTY)), ensure_ascii=False).encode("utf-8")


def test_names_cannot_break_the_xml() -> None:
    suite = ElementTree.fromstring(comparison_junit(made(NASTY), True))
    assert suite[0].get("name") == 'b against a<b> & "c"\ufffd\ufffd[31m|\ufffd'


def test_junit_reports_what_was_left_out() -> None:
    suite = ElementTree.fromstring(comparison_junit(made(), False))
    assert suite.findtext("system-out") == "a note"


def test_the_gate_fails_where_nothing_could_be_tested() -> None:
    found = made()
    assert not found.fails(found.pairs[0])
    assert found.fails(replace(found.pairs[0], p=None, adjusted=None))


def test_junit_has_a_case_for_what_was_not_compared() -> None:
    found = replace(made(), uncompared=(Uncompared("u", None, "b did not run it"), Uncompared("v", "f1", "why")))
    suite = ElementTree.fromstring(comparison_junit(found, True))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "2", "0")
    message = [(case.get("classname"), failure.get("message")) for case in suite for failure in case.findall("failure")]
    assert message == [("u", "b did not run it"), ("v, f1", "why")]
    suite = ElementTree.fromstring(comparison_junit(found, False))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "0", "2")


def test_a_failed_gate_says_why() -> None:
    worse = replace(made().pairs[0], outcome="worse")
    found = replace(made(), pairs=(*made().pairs, worse), uncompared=(Uncompared("u", "f1", "why"),))
    assert gate_lines(found) == [
        "gate failed: t, acc, b against a: worse beyond chance",
        "gate failed: u, f1: not compared: why",
    ]
    assert gate_lines(made()) == []
    many = gate_lines(replace(found, pairs=(worse,) * 12))
    assert len(many) == 11 and many[-1] == "gate failed: 3 more"


def test_names_cannot_steer_the_terminal_or_break_a_table() -> None:
    assert "\x1b" not in comparison_text(made(NASTY)) and "\x00" not in comparison_text(made(NASTY))
    row = next(line for line in comparison_markdown(made(NASTY)).split("\n") if "r1" in line)
    assert row.count("|") - row.count("\\|") == 4


def test_a_lone_difference_of_models_is_not_repeated() -> None:
    assert "differs" not in comparison_text(made())
    shots = replace(made().pairs[0], run_differences=("num_fewshot: 0 → 5",))
    assert "  differs: num_fewshot: 0 → 5\n" in comparison_text(replace(made(), pairs=(shots,)))


def test_flips_and_notices_are_shown() -> None:
    text = comparison_text(made())
    assert "  document 3: 0 → 1: why?\n" in text and "\nnote: a note\n" in text
    assert text.endswith("No difference was found between b and a.")


def test_a_narrow_terminal_has_narrow_tables_and_wrapped_sentences() -> None:
    text = comparison_text(replace(made(), verdict="word " * 40), 60)
    assert max(map(len, text.split("\n"))) <= 60
    rows = [line.split()[2:] for line in text.split("\n") if line.startswith("t, acc ")]
    wide = [line.split()[2:] for line in comparison_text(made()).split("\n") if line.startswith("t, acc ")]
    assert len(rows) > len(wide) == 3 and list(chain(*rows)) == list(chain(*wide))


def test_names_too_long_for_a_terminal_have_lines_of_their_own_and_stay_whole() -> None:
    name = "org/a-name-of-forty-letters-is-not-uncommon"
    pair = replace(made(name).pairs[0], task="a_task_of_more_than_a_few_letters", second="日本" * 6)
    lines = comparison_text(replace(made(name), pairs=(pair,), systems=made(name).systems * 2), 50).split("\n")
    assert max(map(cell_len, lines)) <= 50
    at = lines.index("Task, metric  Systems")
    assert lines[at + 1 : at + 6] == [
        "  n   First   Second  Second − first",
        "a_task_of_more_than_a_few_letters, acc",
        "日本日本日本日本日本日本 −",
        name,
        "  10  0.5000  0.5000  0.0000",
    ]


def test_sentences_are_wrapped_by_the_cells_they_take() -> None:
    text = comparison_text(replace(made(), verdict="日本 " * 30), 50)
    assert max(map(cell_len, text.split("\n"))) <= 50


def test_wide_letters_keep_columns_aligned() -> None:
    lines = comparison_text(made("日本")).split("\n")
    assert lines[1:3] == ["日本    r1   x", "b       r2   y"]


def test_very_many_pairs_are_cut() -> None:
    many = replace(made(), pairs=made().pairs * 100)
    assert "40 more pairs: see --format json" in comparison_text(many)


def test_a_table_without_letters_says_so() -> None:
    score = Estimate(0.5, 0.1, 0.3, 0.7, 10, "wilson")
    for letters, message in (
        ("a", "that share a letter cannot be told apart"),
        ("", "letters are left out because too many would be needed"),
    ):
        table = RankTable(
            "t", "acc", "none", (RankedSystem("a", score, 1, 2, letters), RankedSystem("b", score, 1, 2, letters))
        )
        assert message in comparison_text(replace(made(), tables=(table,)))


def test_a_sentence_that_the_verdict_continues_occurs_once() -> None:
    own = made()
    over = OverallScore("a", "b", ("t", "u"), own.pairs[0].difference, 0.5, 0.5, "none", "Over 2 tasks, nothing.")
    found = replace(own, overall=(over,), verdict="Over 2 tasks, nothing; 1 of 2 single comparisons differs.")
    assert comparison_text(found).count("Over 2 tasks") == 1


def test_errors_with_and_without_pairing_are_next_to_their_correlation() -> None:
    found = made()
    pair = replace(found.pairs[0], unpaired=0.14, correlation=0.49, needed=900, needed_to_detect=1234)
    lines = comparison_text(replace(found, pairs=(pair,))).split("\n")
    (place,) = [place for place, line in enumerate(lines) if line.endswith("SE      SE unpaired  Correlation")]
    assert lines[place + 1].endswith("0.1000  0.1400       0.49")


def test_the_documents_needed_say_for_which_difference() -> None:
    found = made()
    pair = replace(found.pairs[0], detectable=0.2, needed=900, needed_to_detect=1234)
    observed = comparison_text(replace(found, pairs=(pair,)))
    assert "Detectable with n  n, observed effect\n" in observed and "n to detect" not in observed
    requested = comparison_text(replace(found, pairs=(pair,), options=CompareOptions(detect=0.02)))
    assert "Detectable with n  n, observed effect  n to detect 0.02\n" in requested
    assert "0.2000             900                 1,234" in requested


def test_an_interval_says_its_level_and_no_end_looks_like_0_that_is_not() -> None:
    found = made()
    ends = Estimate(0.1, 0.05, 0.000012, 0.2, 10, "mcnemar", 1 - 0.05 / 6)
    text = comparison_text(replace(found, pairs=(replace(found.pairs[0], difference=ends),)))
    assert "1e-05 … 0.2000  99.17 %" in text
