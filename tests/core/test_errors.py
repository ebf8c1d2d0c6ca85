"""Errors for people."""

from __future__ import annotations

import pytest

from assay.core import errors
from assay.core.errors import AssayError, Fault, UserError, did_you_mean, missing_extra, unknown_name


def test_a_fault_says_four_things_in_order() -> None:
    fault = Fault("gsm8k.yaml:31", 'unknown filter "regx"', "a name", "See: assay ls filters")
    assert str(fault) == 'gsm8k.yaml:31: unknown filter "regx"; expected a name. See: assay ls filters'


@pytest.mark.parametrize(
    ("fault", "text"),
    [(Fault("", "b"), "b"), (Fault("a", "b"), "a: b"), (Fault("a", "b", next="d"), "a: b. d")],
)
def test_empty_parts_are_left_out(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_an_error_carries_all_its_faults() -> None:
    faults = (Fault("a", "b"), Fault("c", "d"))
    error = UserError(*faults)
    assert error.faults == faults
    assert str(error) == "a: b\nc: d"


def test_near_names_are_suggested_best_first() -> None:
    assert did_you_mean("regx", ["regex", "map", "regex_pos"]) == ' (did you mean "regex" or "regex_pos"?)'


def test_case_does_not_hide_a_near_name() -> None:
    assert did_you_mean("ARC_EASY", ["arc_easy"]) == ' (did you mean "arc_easy"?)'


def test_far_names_are_not_suggested() -> None:
    assert did_you_mean("zzz", ["regex", "map"]) == ""
    assert did_you_mean("x", []) == ""


def test_an_unknown_name_says_where_to_look() -> None:
    error = unknown_name("filter", "regx", ["regex"], "t.yaml:3")
    assert str(error) == 't.yaml:3: unknown filter "regx" (did you mean "regex"?). See: assay ls filters'


def test_a_missing_extra_names_the_line_that_installs_it() -> None:
    assert "pip install 'assay-eval[hf]'" in str(missing_extra("torch", "hf", "model hf"))


def test_users_errors_exit_with_2_and_bugs_with_1() -> None:
    family = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, AssayError)]
    assert {kind.__name__: kind.exit_code for kind in family if kind.exit_code != 2} == {"AssayError": 1}
    assert len(family) > 10
