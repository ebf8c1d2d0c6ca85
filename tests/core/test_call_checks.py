"""Calls checked against signatures."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TypedDict

import pytest

from assay.core.call_checks import checked, checked_dataclass
from assay.core.errors import ArgumentError


class Settings(TypedDict, total=False):
    limit: float | None


@checked(Settings, {"temperature": "Settings of generation go elsewhere"}, {"size": "Count again"})
def ask(name: str, *rest: int, size: int = 1, **settings: object) -> tuple[object, ...]:
    """Asks."""
    return name, rest, size, settings


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Point:
    across: int
    down: int = 0


def test_a_call_that_fits_is_the_call_itself() -> None:
    assert ask("a", 1, 2, size=3, limit=0.5) == ("a", (1, 2), 3, {"limit": 0.5})
    assert (ask.__name__, ask.__doc__, next(iter(inspect.signature(ask).parameters))) == ("ask", "Asks.", "name")


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        (("a",), {"siz": 1}, 'ask(): unknown argument "siz" (did you mean "size"?)'),
        (("a",), {"limits": 1}, 'ask(): unknown argument "limits" (did you mean "limit"?)'),
        (("a",), {"temperatur": 1}, 'ask(): unknown argument "temperatur". Settings of generation go elsewhere'),
        (("a",), {"size": "x"}, "ask(): size is 'x', a str; expected a whole number. Count again"),
        (("a", "b"), {}, "ask(): rest is 'b', a str; expected a whole number"),
        ((), {}, "ask(): name is missing; expected ask(name, size, limit, …)"),
        (("a",), {"name": "b"}, "ask(): name is given twice; expected once"),
    ],
)
def test_a_slip_is_reported(arguments: tuple[object, ...], named: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ask(*arguments, **named)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_what_a_checked_function_raises_comes_through() -> None:
    @checked()
    def fail(word: str) -> None:
        raise TypeError(word)

    with pytest.raises(TypeError, match="mine") as caught:
        fail("mine")
    assert not isinstance(caught.value, ArgumentError)


def test_a_field_that_there_is_not() -> None:
    assert Point(1, down=2) == Point(1, 2)
    with pytest.raises(ArgumentError, match=r'Point\(\): unknown argument "acros" \(did you mean "across"\?\)'):
        Point(acros=1)  # type: ignore[call-arg]
