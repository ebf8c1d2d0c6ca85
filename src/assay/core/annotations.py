"""Checks values against type annotations and describes annotations in words.

In: a value and the annotation of a parameter or field. Out: the value as plain Python (numpy scalars become Python
numbers, lists become tuples where a tuple is annotated), or a `TypeMismatch` with the path to the offending part. An
object fits a protocol if it has all of its members, with property values of the annotated types.
"""

from __future__ import annotations

import inspect
import numbers
import operator
import os
import reprlib
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from assay.core.errors import Fault
from assay.core.protocol_errors import mismatch_advice

Reader = Callable[[Any], Any]
# JSON-like values: strings, numbers, True, False, None, and lists and dicts of these.
Plain = Annotated[Any, "plain"]

_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
    type(None): ("None", "None"),
    Path: ("a path", "paths"),
    Hashable: ("a label", "labels"),
}
# Dataclasses that users construct themselves: their fields are checked wherever an instance is passed in.
CHECKED_DATACLASSES: set[type] = set()
_SHOWN_AS_THEY_ARE = (str, bytes, int, float, bool, type(None), list, tuple, set, frozenset, dict, range)
_MOST_CHARACTERS = 60
_MOST_NAMES = 8


class TypeMismatch(Exception):
    """A value that does not fit its annotation.

    Attributes:
        path: path within the whole value, such as `["task"][0]`; empty for the whole value.
        value: the value found there.
        annotation: the annotation expected there.
        detail: the part that does not fit, for objects.
    """

    def __init__(self, path: str, value: Any, annotation: Any, detail: str = "") -> None:
        super().__init__(path)
        self.path = path
        self.value = value
        self.annotation = annotation
        self.detail = detail

    @property
    def is_specific(self) -> bool:
        """Whether the mismatch says more than "none of these types"."""
        return bool(self.path) or _is_protocol(self.annotation)

    def below(self, place: str) -> TypeMismatch:
        """The same mismatch, with a path one level further out."""
        return TypeMismatch(place + self.path, self.value, self.annotation, self.detail)

    def fault(self, where: str, name: str) -> Fault:
        """The mismatch as a fault for an error message."""
        found = f"{name}{self.path} is {shown(self.value)}{self.detail}"
        advice = mismatch_advice(self.annotation.__name__, self.value) if _is_protocol(self.annotation) else None
        return (
            Fault(where, found, advice.expected, advice.next)
            if advice
            else Fault(where, found, describe_annotation(self.annotation))
        )


def shown(value: Any) -> str:
    """A value as an error message shows it: simple ones by their repr, others by their type only."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return f"a function ({value.__name__})"
    if value is None:
        return "None"
    kind = type(value).__name__
    if type(value) not in _SHOWN_AS_THEY_ARE:
        return f"{_article(kind)} {kind}"
    text = reprlib.repr(value)
    return f"{text[:_MOST_CHARACTERS]}, {_article(kind)} {kind}"


def shown_list(names: Sequence[str]) -> str:
    """The first few of several strings, quoted."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f'"{name[:_MOST_CHARACTERS]}"' for name in names[:_MOST_NAMES]) + more


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"


def describe_annotation(annotation: Any) -> str:
    """Describes an annotation in words: `int | None` is "a whole number or None"."""
    return _or(list(dict.fromkeys(_words(part)[0] for part in _parts(annotation))))


def _or(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _parts(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _words(annotation: Any) -> tuple[str, str]:
    """One type in words: singular and plural."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation == Plain:
        return "a string, a number, True, False, None, or a list or dict of these", "plain values"
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin is Literal:
        return _or([repr(value) for value in inner]), "values"
    if origin in (Union, types.UnionType):
        return describe_annotation(annotation), _or(list(dict.fromkeys(_words(part)[1] for part in inner)))
    kind = origin or annotation
    if kind is Any or not isinstance(kind, type):
        return "a value", "values"
    if issubclass(kind, Callable):  # type: ignore[arg-type]
        return "a function", "functions"
    if issubclass(kind, Mapping):
        return "a dict", "dicts"
    if (_is_list(kind) or kind is Iterable) and inner:
        return f"a list of {_words(inner[0])[1]}", "lists"
    return f"{_article(kind.__name__)} {kind.__name__}", f"{kind.__name__} objects"


def _is_list(kind: type) -> bool:
    return kind in (list, tuple, frozenset, set) or (kind is not str and issubclass(kind, Sequence))


@cache
def reader(annotation: Any) -> Reader:
    """Returns a function that converts a value to this annotation or raises `TypeMismatch`."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation == Plain:
        return _plain
    if annotation in _READERS:
        return _READERS[annotation]
    if origin in (Union, types.UnionType):
        return _union(annotation, [reader(part) for part in inner])
    kind = origin or annotation
    if origin is Literal:
        return _when(annotation, lambda value: value in inner)
    if kind is Any or kind is object or not isinstance(kind, type):
        return _unchanged
    if _is_protocol(annotation):
        return _protocol(annotation)
    if issubclass(kind, Callable):  # type: ignore[arg-type]
        return _when(annotation, callable)
    if issubclass(kind, Mapping):
        return _mapping(annotation, *(map(reader, inner or (Any, Any))))
    if _is_list(kind):
        return _list(annotation, reader(inner[0] if inner else Any), kind)
    if kind in CHECKED_DATACLASSES:
        return _dataclass_reader(kind)
    return _when(annotation, lambda value: isinstance(value, kind))


def _dataclass_reader(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeMismatch("", value, kind)
        for name, read_field in _fields(kind):
            _at(f".{name}", read_field, getattr(value, name))
        return value

    return read


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value fits an annotation."""
    try:
        reader(annotation)(value)
    except TypeMismatch:
        return False
    return True


def _unchanged(value: Any) -> Any:
    return value


def _when(annotation: Any, is_fit: Callable[[Any], bool]) -> Reader:
    def read(value: Any) -> Any:
        if not is_fit(value):
            raise TypeMismatch("", value, annotation)
        return value

    return read


def _number(value: Any) -> int | float:
    """A number as a Python int or float. Booleans are not numbers here."""
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeMismatch("", value, float)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeMismatch("", value, int)
    return int(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):  # numpy's
        raise TypeMismatch("", value, bool)
    return bool(value)


def _plain(value: Any) -> Any:
    """A JSON-like value; numpy arrays, paths and torch dtypes are converted to one."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: _at(f"[{key!r}]", _plain, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_at(f"[{place}]", _plain, item) for place, item in enumerate(value)])
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # numpy's
        return value.tolist()
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    raise TypeMismatch("", value, Plain)


def _path(value: Any) -> Path:
    if not isinstance(value, os.PathLike):
        raise TypeMismatch("", value, Path)
    return Path(os.fspath(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeMismatch("", value, str)
    return value


_READERS: dict[Any, Reader] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _flag,
    type(None): _when(type(None), lambda value: value is None),
    Path: _path,
}


def _is_protocol(annotation: Any) -> bool:
    """Whether an annotation is one of Assay's protocols; those of the standard library are checked as plain types."""
    return bool(getattr(annotation, "_is_protocol", False)) and annotation.__module__.startswith("assay.")


def _protocol(kind: type) -> Reader:
    """Reader for objects that have all members of a protocol, with property values of the annotated types."""
    members = {name: item for name, item in vars(kind).items() if not name.startswith("_")}
    properties = {
        name: get_type_hints(item.fget)["return"] for name, item in members.items() if isinstance(item, property)
    }
    methods = {name: list(inspect.signature(item).parameters)[1:] for name, item in members.items() if callable(item)}

    def read(value: Any) -> Any:
        lacking = [name for name in members if not _has(value, name)]
        if isinstance(value, type) or lacking:
            detail = f", which lacks {' and '.join(lacking)}" if 0 < len(lacking) < len(members) else ""
            raise TypeMismatch("", value, kind, detail)
        for name, wanted in properties.items():
            _check_property(value, name, wanted, kind)
        for name, parameters in methods.items():
            _check_method(value, name, parameters, kind)
        return value

    return read


def _has(value: Any, name: str) -> bool:
    """Whether an object has a member. A property that raises counts as present, so that its own error is reported."""
    missing = object()
    return inspect.getattr_static(value, name, missing) is not missing or hasattr(value, name)


def _check_method(value: Any, name: str, parameters: Sequence[str], kind: type) -> None:
    found, call = getattr(value, name), f"{name}({', '.join(parameters)})"
    if not callable(found):
        raise TypeMismatch("", value, kind, f", whose {name} is {shown(found)} and not a method {call}")
    try:
        inspect.signature(found).bind(*parameters)
    except TypeError as error:
        raise TypeMismatch("", value, kind, f", whose {name} cannot be called as {call}: {error}") from None
    except ValueError:  # functions in C may have no signature
        pass


def _check_property(value: Any, name: str, wanted: Any, kind: type) -> None:
    found = getattr(value, name)
    try:
        reader(wanted)(found)
    except TypeMismatch as mismatch:
        hint = "; write @property above it" if isinstance(found, types.MethodType) else ""
        expected = describe_annotation(mismatch.annotation)
        detail = f", whose {name}{mismatch.path} is {shown(mismatch.value)} and not {expected}{hint}"
        raise TypeMismatch("", value, kind, detail) from None


def _union(annotation: Any, readers: Sequence[Reader]) -> Reader:
    def read(value: Any) -> Any:
        specific: list[TypeMismatch] = []
        for one in readers:
            try:
                return one(value)
            except TypeMismatch as mismatch:
                specific += [mismatch] if mismatch.is_specific else []
        raise max(specific, key=lambda mismatch: len(mismatch.path), default=TypeMismatch("", value, annotation))

    return read


def _mapping(annotation: Any, read_key: Reader, read_value: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeMismatch("", value, annotation)
        found = {}
        for key, item in value.items():
            found[_at("'s key", read_key, key)] = _at(f"[{key!r}]", read_value, item)
        return found

    return read


def _list(annotation: Any, read_item: Reader, kind: type) -> Reader:
    is_set, makes = kind in (frozenset, set), kind in (tuple, frozenset, set)

    def read(value: Any) -> Any:
        items = value.tolist() if hasattr(value, "tolist") else value
        is_fit = isinstance(items, Sequence) and not isinstance(items, (str, bytes))
        if not is_fit and not (is_set and isinstance(items, (frozenset, set))):
            raise TypeMismatch("", value, annotation)
        found: list[Any] = []
        try:
            for item in items:
                found.append(read_item(item))
        except TypeMismatch as mismatch:
            raise mismatch.below(f"[{len(found)}]") from None
        # Returned unchanged where possible: this runs once per request, thousands of times.
        if (not makes or isinstance(items, kind)) and all(map(operator.is_, found, items)):
            return items
        return kind(found) if makes else found

    return read


def _at(place: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except TypeMismatch as mismatch:
        raise mismatch.below(place) from None


Data = TypeVar("Data")


@cache
def _fields(kind: type) -> tuple[tuple[str, Reader], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple((entry.name, reader(hints[entry.name])) for entry in fields(kind))


def coerce_fields(data: Data, where: str) -> tuple[Data, list[Fault]]:
    """Coerces the fields of a frozen dataclass to their annotated types and collects a fault for each mismatch.

    Args:
        data: the dataclass as constructed by the caller.
        where: name of the caller's object, for errors.
    """
    changed: dict[str, Any] = {}
    faults = []
    kind: type = type(data)
    for name, read in _fields(kind):
        value = getattr(data, name)
        try:
            fit = read(value)
        except TypeMismatch as mismatch:
            faults.append(mismatch.fault(where, name))
            continue
        if fit is not value and (type(fit) is not type(value) or fit != value):
            changed[name] = fit
    return (data if faults or not changed else replace(data, **changed)), faults  # type: ignore[type-var]
