"""Parses `key=value` settings from the command line: separated by commas or blanks, quoted, or as JSON.

Also checks those of a model that has only a few: unknown names, whole numbers.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.errors import Fault, ModelError, UserError, did_you_mean
from assay.core.secrets import remember, remember_environment

# Most characters of the arguments that a model's display name includes.
LONGEST_IN_NAME = 60
_NAME = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*=")
_CLOSING = {"[": "]", "{": "}", "(": ")"}


def parse_arguments(text: str | Sequence[str] | Mapping[str, Any] | None, where: str) -> dict[str, Any]:
    """Parses `pretrained=PATH,dtype=float32` into a dict.

    Commas inside brackets and quotes do not separate. Values are parsed as true, false, none, numbers or Python
    literals, and are text otherwise. A text that starts with `{` is parsed as JSON. Secrets among the values are
    registered for redaction.

    Args:
        text: the text, several texts, or a mapping, which is returned as it is.
        where: the option's name, for errors.
    """
    if text is None:
        return {}
    found: dict[str, Any] = dict(text) if isinstance(text, Mapping) else {}
    for part in [text] if isinstance(text, str) else () if isinstance(text, Mapping) else text:
        found.update(_parse_json(part, where) if part.lstrip().startswith("{") else _parse_pairs(part, where))
    remember_environment()
    remember(found)
    return found


def _parse_json(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(Fault(where, f"is not JSON: {error.msg} at character {error.pos}")) from error
    return dict(data)


def _parse_pairs(text: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in _split(text, where):
        if not pair.strip():
            continue
        match = _NAME.match(pair)
        if match is None:
            raise UserError(Fault(where, f'"{pair}" has no name', "name=value,name=value or a JSON object"))
        found[match.group(1)] = parse_value(pair[match.end() :])
    return found


def _split(text: str, where: str) -> list[str]:
    """Splits at commas outside brackets and quotes. A quote opens only at the start of a value."""
    parts, start, open_marks, quote, before = [], 0, [], "", ","
    for index, character in enumerate(text):
        before, last = (before if character.isspace() else character), before
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and last in "=,:[{(":
            quote = character
        elif character in _CLOSING:
            open_marks.append(_CLOSING[character])
        elif open_marks and character == open_marks[-1]:
            open_marks.pop()
        elif character == "," and not open_marks:
            parts.append(text[start:index])
            start = index + 1
    if (quote or open_marks) and "," in text[start:]:
        raise UserError(Fault(where, f"{text[start:]!r} opens a quote or bracket and never closes it"))
    return [*parts, text[start:]]


def parse_value(text: str) -> Any:
    """Parses a value as the type it looks like."""
    stripped = text.strip()
    simple: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}
    if stripped.lower() in simple:
        return simple[stripped.lower()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1or2" and "'\\d'" are text, not code to warn about
            value = ast.literal_eval(stripped)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return stripped
    # Other Python literals (…, bytes, sets, complex numbers) are not settings: `until=...` is text.
    return value if isinstance(value, (str, int, float, list, tuple, dict)) else stripped


def reject_unknown_arguments(model: str, args: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raises an error that lists every argument the model does not have."""
    expected = "one of: " + ", ".join(known)
    unknown = [name for name in args if name not in known]
    if unknown:
        raise ModelError(
            *(Fault("model_args", f'{model} has no "{name}"{did_you_mean(name, known)}', expected) for name in unknown)
        )


def whole_number(model: str, args: Mapping[str, Any], name: str, default: int) -> int:
    """An argument that must be a whole number; accepts text from a command line."""
    value = args.get(name, default)
    # bool is a subclass of int, but `seed=True` is a mistake.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ModelError(Fault("model_args", f"{model}: {name}={value!r}", "a whole number"))
