"""Values of options from the words of the command line; a wrong word is an error that names the option."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError


def split_names(values: str | Sequence[str]) -> list[str]:
    """Names given with blanks or commas between them."""
    texts = [values] if isinstance(values, str) else values
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def joined_names(values: Sequence[str]) -> str:
    """Names given as several words, as one text with commas."""
    return ",".join(values)


def read_pairs(flag: str) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Reads `K=V` words, see `parse_arguments`."""
    return lambda words: parse_arguments(words, flag)


def read_boolean(flag: str) -> Callable[[str], bool]:
    """Reads true and false."""

    def read(text: str) -> bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise UserError(Fault(flag, f'is "{text}"', "true or false"))
        return text.lower() in ("true", "1", "yes")

    return read


def read_seeds(text: str) -> int | list[int]:
    """`5` is a number of seeds; `1,2,7` is a list of them."""
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(Fault("--seeds", f'is "{text}"', "a number of seeds, or a list of them: 1,2,7")) from error
    return found[0] if len(found) == 1 and "," not in text else found


def read_samples(text: str) -> dict[str, list[int]]:
    """Documents by task, as JSON or as the name of a JSON file."""
    try:
        content = text if text.lstrip().startswith("{") else Path(text).expanduser().read_text(encoding="utf-8")
        data = json.loads(content)
    except OSError as error:
        raise UserError(
            Fault("--samples", f'"{text}" cannot be read: {error.strerror}', "JSON or a JSON file")
        ) from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise UserError(Fault("--samples", f"is not JSON: {error}", '{"task": [0, 5]}')) from error
    if not isinstance(data, dict) or not all(_is_index_list(indices) for indices in data.values()):
        raise UserError(Fault("--samples", "has another shape", '{"task": [0, 5]}'))
    return data


def _is_index_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(index) is int for index in value)


def read_count(flag: str, all_of_them: int | None = None) -> Callable[[str], int | None]:
    """Reads a number of documents, or `all`.

    Args:
        flag: the option, for errors.
        all_of_them: what `all` stands for.
    """

    def read(text: str) -> int | None:
        if text == "all":
            return all_of_them
        if not text.isdecimal():
            raise UserError(Fault(flag, f'is "{text}"', "a number of documents, or all"))
        return int(text)

    return read


def read_margin(flag: str) -> Callable[[str], float]:
    """Reads a difference above zero."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            expected = "a number above 0, such as 0.02 for 2 points"
            raise UserError(Fault(flag, f'"{text}" is not a margin', expected, "Runs come before the options"))
        return value

    return read


def read_natural(flag: str) -> Callable[[str], int]:
    """Reads a whole number, 0 or more."""

    def read(text: str) -> int:
        if not text.isdecimal():
            raise UserError(Fault(flag, f'is "{text}"', "a whole number, 0 or more"))
        return int(text)

    return read
