"""Packages that task code imports when it is called are found by reading it, and only those that it surely wants."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from assay.scoring.code_imports import late_imports

CODE = """
import functools

def direct(doc, results):
    import sympy.parsing
    from math_verify import parse
    import json
    from lm_eval.utils import eval_logger
    from . import beside

def through(items):
    return [helper(item) for item in items]

def helper(item):
    import nltk

def guarded(items):
    try:
        import absent_one
    except ImportError:
        absent_one = None
    if items:
        import absent_two
    value = items and other(items)
    def inner():
        import absent_three
    return items if items else other(items)

def other(items):
    import absent_four

def loading(items):
    import evaluate
    metric = evaluate.load("squad_v2")
    return evaluate.load("f1", "config")

class Filter:
    def __init__(self):
        import made
    def apply(self, responses, docs):
        import applied
    def unused(self):
        import never

recursive = lambda items: again(items)

def again(items):
    import once
    return again(items)
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path: Path = tmp_path_factory.mktemp("code") / "task_code_of_a_test.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location("task_code_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("direct", {"sympy": "direct", "math_verify": "direct"}),
        ("through", {"nltk": "helper"}),
        ("guarded", {}),
        ("Filter", {"made": "__init__", "applied": "apply"}),
        ("again", {"once": "again"}),
    ],
)
def test_what_is_surely_imported_is_found(code: ModuleType, name: str, modules: dict[str, str]) -> None:
    assert late_imports(getattr(code, name)).modules == modules


def test_metrics_that_are_loaded_by_name_alone_are_found(code: ModuleType) -> None:
    assert late_imports(code.loading).metrics == {"squad_v2": "loading"}


def test_code_behind_a_partial_is_read(code: ModuleType) -> None:
    assert late_imports(functools.partial(code.through)).modules == {"nltk": "helper"}


def test_code_that_cannot_be_read_or_is_installed_needs_nothing() -> None:
    made: dict[str, Callable[..., None]] = {}
    exec("def made():\n    import absent", made)
    for thing in (made["made"], len, json_of(), functools.partial(print)):
        assert late_imports(thing).modules == {}


def json_of() -> Callable[..., str]:
    import json

    return json.dumps
