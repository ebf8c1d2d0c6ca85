"""Values against annotations: what fits, what becomes plain Python, and the errors for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Union

import numpy as np
import pytest

from assay.core.annotations import Plain, TypeMismatch, describe_annotation, reader, shown
from assay.core.requests import Message, Sampling


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (int, np.int64(3), 3),
        (float, 3, 3),
        (float, np.float32(0.5), 0.5),
        (float, Fraction(1, 2), 0.5),
        (bool, np.False_, False),
        (Path, Path("a"), Path("a")),
        (Union[str, None], None, None),
        (Sequence[int], range(2), range(2)),
        (Sequence[int], np.array([1, 2]), [1, 2]),
        (tuple[str, ...], ["a"], ("a",)),
        (frozenset[str], {"a"}, frozenset("a")),
        (Mapping[str, Sequence[int]], {"a": (1,)}, {"a": (1,)}),
        (Callable[[], Any], len, len),
        (Literal["a", "b"], "b", "b"),
        (Any, object, object),
        (Plain, {"a": (np.int64(1), Path("b"))}, {"a": (1, "b")}),
    ],
)
def test_a_value_that_fits_becomes_plain(annotation: Any, value: Any, read: Any) -> None:
    found = reader(annotation)(value)
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, True, "x is True, a bool; expected a whole number"),
        (int, 2.0, "x is 2.0, a float; expected a whole number"),
        (float, "2", "x is '2', a str; expected a number"),
        (bool, 1, "x is 1, an int; expected True or False"),
        (Union[int, str, None], b"a", "x is b'a', a bytes; expected a whole number, a string or None"),
        (Sequence[str], "ab", "x is 'ab', a str; expected a list of strings"),
        (Sequence[str], {"a"}, "x is {'a'}, a set; expected a list of strings"),
        (Union[str, Sequence[str]], ["a", 1], "x[1] is 1, an int; expected a string"),
        (Mapping[str, int], {"a": "b"}, "x['a'] is 'b', a str; expected a whole number"),
        (Mapping[str, int], {1: 1}, "x's key is 1, an int; expected a string"),
        (Sampling, Sampling("hot"), "x.temperature is 'hot', a str; expected a number"),  # type: ignore[arg-type]
        (tuple[Message, ...], [{"role": "user"}], "x[0] is {'role': 'user'}, a dict; expected a Message"),
        (Plain, {"a": [object()]}, "x['a'][0] is an object; expected a string, a number, True, False, None, or a list"),
    ],
)
def test_a_misfit_names_its_path(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        reader(annotation)(value)
    assert str(caught.value.fault("", "x")).startswith(message)


def test_a_list_that_fits_is_not_copied() -> None:
    given = ["a", "b"]
    assert reader(Sequence[str])(given) is given


def test_large_objects_are_shown_by_their_type() -> None:
    class Network:
        def __repr__(self) -> str:
            raise AssertionError("thousands of lines")

    assert (shown(Network()), shown(Network), shown(len)) == ("a Network", "the class Network", "a function (len)")
    assert len(shown("word " * 1000)) < 80


def test_words_of_annotations() -> None:
    assert describe_annotation(Union[str, Path, Sequence[Union[str, Path]], None]) == (
        "a string, a path, a list of strings or paths or None"
    )
