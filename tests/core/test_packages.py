"""Missing packages are reported together, with one line that installs them all."""

from __future__ import annotations

import sys

import pytest

from assay.core.errors import MissingExtra
from assay.core.packages import RequiredPackage, check_packages, declared_packages, missing_packages


def test_what_is_there_is_no_fault() -> None:
    check_packages([RequiredPackage("json", "here"), RequiredPackage("os.path", "there")])


def test_everything_missing_is_named_with_one_line_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    needs = [RequiredPackage("rouge_score", f"task {name}", "metrics") for name in "abcde"]
    needs += [
        RequiredPackage("no_such_module", "task f, process_results (f)"),
        RequiredPackage("no_such.inner", "task g", "report"),
    ]
    first, second, third = missing_packages(needs)
    assert (first.where, first.next) == ("task a; task b; task c and 2 more", "")
    assert first.found == 'the package "rouge-score" is not installed'
    assert second.where == "task f, process_results (f)"
    assert third.next == "Run: pip install 'assay-eval[metrics,report]' no_such_module"
    with pytest.raises(MissingExtra, match="task f"):
        check_packages(needs)


def test_a_thing_declares_one_package_or_several() -> None:
    class Filter:
        package = ("one", "two")

    assert [need.module for need in declared_packages(Filter, "x")] == ["one", "two"]
    assert declared_packages(object(), "x") == []


def test_a_thing_may_name_its_own_extra() -> None:
    class Metric:
        package, extra = ("langdetect",), "tasks"

    (need,) = declared_packages(Metric(), "task ifeval")
    assert (need.module, need.extra) == ("langdetect", "tasks")
