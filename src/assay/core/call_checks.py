"""Checks calls of public functions against their signatures before any work starts.

`checked` wraps a function so that unknown, missing and ill-typed arguments raise one `ArgumentError` that lists them
all; `checked_dataclass` does the same for dataclasses that users construct.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any, ParamSpec, TypeVar, get_origin, get_type_hints

from assay.core.annotations import CHECKED_DATACLASSES, Plain, TypeMismatch, reader
from assay.core.errors import ArgumentError, Fault, closest, did_you_mean

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=type)


def checked(
    settings: type | None = None,
    elsewhere: Mapping[str, str] | None = None,
    advice: Mapping[str, str] | None = None,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorator that checks every call of a function.

    Args:
        settings: the TypedDict of its further keywords; None for a function without any.
        elsewhere: names that users try as keywords → where they belong.
        advice: parameters that are often confused → what to do next.
    """

    def wrap(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        form = _CallSignature(function, settings, elsewhere or {}, advice or {})

        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            positional, named = form.read(args, kwargs)
            return function(*positional, **named)

        return call

    return wrap


def checked_dataclass(kind: Kind) -> Kind:
    """Class decorator: the constructor suggests the field that an unknown keyword may have meant.

    Field types are checked where an instance is passed to a public function, not here: constructors only store.
    """
    CHECKED_DATACLASSES.add(kind)
    make: Callable[..., None] = vars(kind)["__init__"]
    form = _CallSignature(make, None, {}, {}, kind.__name__)

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            make(self, *args, **kwargs)
        except TypeError:
            form.read((self, *args), kwargs)
            raise

    type.__setattr__(kind, "__init__", __init__)
    return kind


def _bare(hint: Any) -> Any:
    """A type without the row of a table that it is annotated with."""
    return hint.__origin__ if get_origin(hint) is Annotated and hint != Plain else hint


class _CallSignature:
    """The parameters of a function, the keywords behind `**`, and their types."""

    def __init__(
        self,
        function: Callable[..., Any],
        settings: type | None,
        elsewhere: Mapping[str, str],
        advice: Mapping[str, str],
        name: str = "",
    ) -> None:
        self._function = function
        self._settings = settings
        self._elsewhere = elsewhere
        self._advice = advice
        self._where = f"{name or function.__name__}()"
        self._parameters = inspect.signature(function).parameters
        self._named = {name: item for name, item in self._parameters.items() if item.kind not in _VARIABLE}

    @functools.cached_property
    def _types(self) -> dict[str, Any]:
        """Annotations of parameters and settings; those of the result and of `**` may exist for type checkers only."""
        own = {
            name: item.annotation
            for name, item in self._parameters.items()
            if item.kind != inspect.Parameter.VAR_KEYWORD and item.annotation is not inspect.Parameter.empty
        }
        holder = SimpleNamespace(__annotations__=own)
        hints = get_type_hints(holder, getattr(self._function, "__globals__", {}), include_extras=True)
        more = get_type_hints(self._settings, include_extras=True) if self._settings is not None else {}
        return {**{name: _bare(hint) for name, hint in more.items()}, **hints}

    def read(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments converted to their annotated types; raises with all faults at once otherwise."""
        faults = list(self._name_faults(args, kwargs))
        names = self._positional(len(args))
        positional = [self._value(name, value, faults) for name, value in zip(names, args, strict=False)]
        named = {name: self._value(name, value, faults) for name, value in kwargs.items()}
        if faults:
            raise ArgumentError(*faults) from None
        return positional, named

    def _value(self, name: str, value: Any, faults: list[Fault]) -> Any:
        if name not in self._types:
            return value
        try:
            return reader(self._types[name])(value)
        except TypeMismatch as mismatch:
            fault = mismatch.fault(self._where, name)
            faults.append(replace(fault, next=fault.next or self._advice.get(name, "")))
            return value

    def _positional(self, count: int) -> list[str]:
        """The names of the first `count` positional parameters; those behind `*` share one name."""
        names = [name for name, item in self._named.items() if item.kind != inspect.Parameter.KEYWORD_ONLY]
        rest = [name for name, item in self._parameters.items() if item.kind == inspect.Parameter.VAR_POSITIONAL]
        return [*names, *rest * max(count - len(names), 0)][:count]

    def _name_faults(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Fault]:
        given = self._positional(len(args))
        known = [name for name in self._named if name != "self"]
        known += list(get_type_hints(self._settings)) if self._settings is not None else []
        for name in kwargs:
            if name not in known:
                yield self._unknown(name, known)
            elif name in given:
                yield Fault(self._where, f"{name} is given twice", "once")
        if len(given) < len(args):
            yield Fault(self._where, f"{len(args)} positional arguments", f"{len(given)} at most, the rest by name")
        lacking = [
            name
            for name, item in self._named.items()
            if item.default is inspect.Parameter.empty and name not in given and name not in kwargs
        ]
        if lacking:
            yield Fault(
                self._where, f"{' and '.join(lacking)} is missing", f"{self._where[:-1]}{', '.join(known[:3])}, …)"
            )

    def _unknown(self, name: str, known: Sequence[str]) -> Fault:
        found = f'unknown argument "{name}"'
        near = closest(name, [*known, *self._elsewhere], most=1)
        if near and near[0] in self._elsewhere:
            return Fault(self._where, found, next=self._elsewhere[near[0]])
        own = ", ".join(name for name in self._named if name != "self")
        more = "" if self._settings is None else ", and the settings of a run: assay run --help_all"
        advice = "" if near else f"It takes: {own}{more}"
        return Fault(self._where, f"{found}{did_you_mean(name, known)}", next=advice)
