"""Size limits, checked before a value is created: a single call can fill the memory before anything interrupts it.

In: the arguments of an operation, string method or filter. Raises a `LimitError` if its result would be too large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Any

from jinja2.runtime import Undefined
from jinja2.utils import Namespace

from assay.core.errors import Fault, LimitError

# Characters of a text that a template creates, including its result: five million tokens, more than any model reads.
MOST_CHARACTERS = 20_000_000
# Copies in `text * n` or `list * n`, and bits of an integer.
MOST_COPIES = 1_000_000
# An item of a list counts as this many characters.
_ITEM_WEIGHT = 20
_PARTS_AT_ONCE = 10_000
_PERCENT = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")
_NUMBER = re.compile(r"\d+")


def check_size(size: int) -> None:
    """Raises if a text of `size` characters is too long."""
    if size > MOST_CHARACTERS:
        found = (
            f"builds a text or list of {size:,} characters" if size < 10**15 else "builds a text that is far too long"
        )
        raise LimitError(Fault("", found, f"at most {MOST_CHARACTERS:,}"))


def joined(parts: Iterable[str]) -> str:
    """The parts as one text. Parts count like items: a great many short ones take memory, too."""
    waiting = iter(parts)
    listed = [*islice(waiting, _PARTS_AT_ONCE)]
    size = sum(map(len, listed))
    if size > MOST_CHARACTERS or len(listed) == _PARTS_AT_ONCE:
        check_size(size)
        while more := list(islice(waiting, _PARTS_AT_ONCE)):
            size += sum(map(len, more)) + _ITEM_WEIGHT * len(more)
            check_size(size)
            listed += more
    return "".join(listed)


def size_checked(value: Any) -> Any:
    """The value itself, unless it is too large including its contents; repeated contents count repeatedly."""
    if type(value) is list and set(map(type, value)) == {str}:  # most lists
        check_size(sum(map(len, value)) + _ITEM_WEIGHT * len(value))
        return value
    weight = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (str, bytes)):
            weight += len(item)
        elif isinstance(item, (list, tuple)):
            weight += _ITEM_WEIGHT * len(item)
            if weight <= MOST_CHARACTERS:
                waiting += item
        elif isinstance(item, dict):
            weight += _ITEM_WEIGHT * len(item)
            waiting += chain.from_iterable(item.items())
        elif isinstance(item, Namespace):
            waiting.append(object.__getattribute__(item, "_Namespace__attrs"))
        check_size(weight)
    return value


def _length(value: Any) -> int:
    """Length of a value as text."""
    if isinstance(value, (str, bytes)):
        return len(value)
    return 0 if isinstance(value, (int, float, Undefined)) else len(str(value))


def _count(text: Any) -> int:
    """A number from its digits, which may be far too many for Python."""
    return int(text) if len(text) < 16 else 10**16


# Operators


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Raises if the result of an operation is too large."""
    if operator == "%":
        if isinstance(left, (str, bytes)):
            check_percent(left, right)
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            _check_copies(left.bit_length() * right, "digits")
    elif operator == "*":
        if isinstance(left, int) and isinstance(right, int):
            _check_copies(left.bit_length() + right.bit_length(), "digits")
        for text, times in ((left, right), (right, left)):
            if isinstance(text, (str, bytes, list, tuple)) and isinstance(times, int):
                _check_copies(len(text) * times, "items")
    elif isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        check_size(len(left) + len(right))


def _check_copies(count: int, noun: str) -> None:
    if count > MOST_COPIES:
        raise LimitError(Fault("", f"builds {min(count, 10**15):,} {noun} at once", f"at most {MOST_COPIES:,}"))


def check_percent(template: Any, values: Any) -> None:
    """Raises if `template % values` is too long: by field widths, or because a long value is repeated."""
    text = template if isinstance(template, str) else template.decode("latin-1")
    items = list(values.values()) if isinstance(values, Mapping) else values if isinstance(values, tuple) else [values]
    marks = _PERCENT.findall(text)
    widths = [number for mark in marks for number in mark if number]
    starred = sum(abs(item) for item in items if isinstance(item, int)) if "*" in widths else 0
    named = sum(_count(number) for number in widths if number != "*")
    longest = max(map(_length, items), default=0)
    check_size(len(text) + named + starred + len(marks) * longest)


def check_specification(text: str) -> None:
    """Raises if a format specification such as `>1000000000` requests too many characters."""
    for number in _NUMBER.findall(text):
        check_size(_count(number))


# Methods of strings and numbers, by name; each check gets the object and the arguments of the method.


def _padded(text: Any, width: Any = 0, *_: Any) -> None:
    check_size(width if isinstance(width, int) else 0)


def _to_bytes(number: Any, length: Any = 1, *_: Any, **__: Any) -> None:
    check_size(length if isinstance(length, int) else 0)


def _replaced(text: Any, old: Any, new: Any, count: Any = None, *_: Any) -> None:
    if isinstance(text, (str, bytes)) and isinstance(old, (str, bytes)) and isinstance(new, (str, bytes)):
        most = len(text) + 1 if not old else len(text) // len(old)
        if len(text) + most * len(new) > MOST_CHARACTERS:
            found = text.count(old)  # type: ignore[arg-type]
            found = min(found, count) if isinstance(count, int) and count >= 0 else found
            check_size(len(text) + found * (len(new) - len(old)))


def _expanded(text: Any, tabsize: Any = 8, *_: Any) -> None:
    tab = "\t" if isinstance(text, str) else b"\t"
    check_size(len(text) + text.count(tab) * (tabsize if isinstance(tabsize, int) else 0))


def _translated(text: Any, table: Any = None, *_: Any, **__: Any) -> None:
    values = table.values() if isinstance(table, Mapping) else ()
    check_size(len(text) * max(map(_length, values), default=1))


METHODS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _padded),
    "to_bytes": _to_bytes,
    "replace": _replaced,
    "expandtabs": _expanded,
    "translate": _translated,
}


# Filters, by name; each check gets the filter's arguments, under Jinja's names, without Jinja's own first argument.


def _wrapped(
    text: Any, width: Any = 79, break_long_words: Any = True, wrapstring: Any = None, break_on_hyphens: Any = True
) -> None:
    if isinstance(wrapstring, str) and len(wrapstring) > 2:
        check_size(_length(text) * len(wrapstring))


def _indented(text: Any, width: Any = 4, first: Any = False, blank: Any = False) -> None:
    size = width if isinstance(width, int) else _length(width)
    check_size(_length(text) + (str(text).count("\n") + 1) * size)


def _batched(value: Any, linecount: Any = 0, fill_with: Any = None) -> None:
    _check_copies(linecount if isinstance(linecount, int) else 0, "items")


def _sliced(value: Any, slices: Any = 0, fill_with: Any = None) -> None:
    _check_copies(slices if isinstance(slices, int) else 0, "lists")


def _as_json(value: Any, *others: Any, **named: Any) -> None:
    size_checked(value)
    for size in (*others, *named.values()):
        _check_copies(1000 * size if isinstance(size, int) else _length(size), "blanks")


def _rounded(value: Any, precision: Any = 0, method: Any = "common") -> None:
    _check_copies(1000 * abs(precision) if isinstance(precision, int) else 0, "digits")


def _replaced_text(text: Any, old: Any, new: Any, count: Any = None) -> None:
    _replaced(str(text), str(old), str(new), count)


def _formatted(text: Any, *values: Any, **named: Any) -> None:
    check_percent(str(text), named or values)


def _printed(value: Any) -> None:
    size_checked(value)


FILTERS: dict[str, Callable[..., None]] = {
    "center": _padded,
    "format": _formatted,
    "replace": _replaced_text,
    "indent": _indented,
    "wordwrap": _wrapped,
    "batch": _batched,
    "slice": _sliced,
    "round": _rounded,
    "tojson": _as_json,
    "pprint": _printed,
}
