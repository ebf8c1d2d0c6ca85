"""Settings as users write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.arguments import parse_arguments
from assay.core.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pretrained=/a/b,dtype=float32", {"pretrained": "/a/b", "dtype": "float32"}),
        ("a=1,b=-2.5,c=1e-3", {"a": 1, "b": -2.5, "c": 0.001}),
        ("a=true,b=False,c=none,d=Null", {"a": True, "b": False, "c": None, "d": None}),
        ("until=['\\n', ','],top_p=0.9", {"until": ["\n", ","], "top_p": 0.9}),
        ("a={'x': (1, 2), 'y': [3]},b=2", {"a": {"x": (1, 2), "y": [3]}, "b": 2}),
        ("a='1,2',b=\"x=y, z\"", {"a": "1,2", "b": "x=y, z"}),
        ("url=http://h/v1?a=b&c=d,k=v", {"url": "http://h/v1?a=b&c=d", "k": "v"}),
        (" a = 1 , b = two words ", {"a": 1, "b": "two words"}),
        ("a=,b=1", {"a": "", "b": 1}),
        ("a=1,,b=2,", {"a": 1, "b": 2}),
        ("a=1,a=2", {"a": 2}),
        ("revision=00123,x=1.2.3", {"revision": "00123", "x": "1.2.3"}),
        ("pretrained=/models/o'brien/m,dtype=auto", {"pretrained": "/models/o'brien/m", "dtype": "auto"}),
        ("until=...,b=1", {"until": "...", "b": 1}),
        ("stop=(", {"stop": "("}),
        ('{"a": [1, "x,y"], "b": null}', {"a": [1, "x,y"], "b": None}),
        ("", {}),
        (None, {}),
        (["a=1", '{"b": 2}', "a=3"], {"a": 3, "b": 2}),
        ({"a": "1"}, {"a": "1"}),
    ],
)
def test_arguments_are_read(text: Any, expected: dict[str, Any]) -> None:
    assert parse_arguments(text, "--model_args") == expected


@pytest.mark.parametrize("value", ["b'x'", "{1, 2}", "1+2j", "1or2", "'\\d'x", "__import__('os')", "[1"])
def test_what_is_not_a_plain_value_stays_text(value: str) -> None:
    assert parse_arguments(f"a={value}", "x") == {"a": value}


def test_types_are_exact() -> None:
    found = parse_arguments("a=1,b=1.0,c=true,d='1'", "x")
    assert [type(value) for value in found.values()] == [int, float, bool, str]


@pytest.mark.parametrize("text", ["float32", "a=1,float32", "=3", "1a=2", "[1]"])
def test_a_part_without_a_name_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="--gen_kwargs: .* has no name; expected name=value"):
        parse_arguments(text, "--gen_kwargs")


@pytest.mark.parametrize("text", ["a=[1,b=2", "a='x,b=2", "a={'x': 1,b=2"])
def test_a_mark_that_swallows_the_rest_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="--model_args: .* never closes it"):
        parse_arguments(text, "--model_args")


def test_broken_json_is_an_error_that_says_where() -> None:
    with pytest.raises(UserError, match=r"--model_args: is not JSON: .* at character 9"):
        parse_arguments('{"a": 1, b}', "--model_args")


@given(st.dictionaries(st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True), st.integers() | st.text(max_size=20)))
def test_json_survives(settings: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(settings), "x") == settings


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.integers() | st.booleans() | st.none()))
def test_python_literals_survive(settings: dict[str, Any]) -> None:
    assert parse_arguments(",".join(f"{name}={value!r}" for name, value in settings.items()), "x") == settings
