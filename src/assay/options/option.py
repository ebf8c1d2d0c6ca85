"""One option: its name, values, meaning and the field of the specification that it fills; readers of its values.

A reader converts words of the command line to the value; an invalid word is an error that names the option.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError

# How many words of the command line an option takes.
SWITCH = "switch"  # none: --log_samples
VALUE = "value"  # one: --limit 10
OPTIONAL = "optional"  # none or one: --audit, --audit 5
ANY = "any"  # any number, positional: assay ls tasks exam questions
WORDS = "words"  # one or more, repeatable: --model_args a=1 b=2
REPEAT = "repeat"  # one, repeatable: --include_path A --include_path B


@dataclass(frozen=True)
class Option:
    """A row of the table.

    Attributes:
        help: what the value is, in a few words; the default is added to it.
        group: heading of the help text that it appears under.
        details: further explanation, for `--help_all` and the reference page.
        metavar: placeholder of the value in help texts.
        default: the default in words, if there is no value to show.
        initial: default value of an option that belongs to a command.
        fills: fields of `RunSpec`, such as `options.num_fewshot`; empty if several options fill one field.
        short: one-letter spelling, such as `-L`.
        flag: spelling on the command line, if it differs from the name of the keyword argument.
        aliases: further spellings, which help texts leave out.
        takes: how many words it takes; inferred from the type if empty.
        constant: value of an option that is given without one.
        choices: the values that it may have; empty for any.
        synonyms: other words for some of the choices.
        constants: hidden flags that abbreviate a value: `--json` for `--format json`.
        read: converts the text, or the list of texts, to the value.
        is_required: whether a command needs it.
        is_positional: whether it is a positional argument, without a flag.
        is_hidden: whether help texts leave it out: it is accepted for scripts written for other versions and tools.
        is_python_only: whether it exists in Python only, not on the command line.
    """

    help: str
    group: str = ""
    metavar: str | None = None
    default: str = ""
    details: str = ""
    initial: Any = None
    fills: str | tuple[str, ...] = ()
    short: str = ""
    flag: str = ""
    aliases: tuple[str, ...] = ()
    takes: str = ""
    type: Callable[[str], Any] | None = None
    constant: Any = None
    choices: tuple[str, ...] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Any], Any] | None = None
    is_required: bool = False
    is_positional: bool = False
    is_hidden: bool = False
    is_python_only: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the specification that it fills."""
        return (self.fills,) if isinstance(self.fills, str) else self.fills


def rows_of(table: type) -> dict[str, Option]:
    """The options of a TypedDict whose fields are annotated with them, each with the type that its field has."""
    hints = get_type_hints(table, include_extras=True)
    return {name: _typed(hint) for name, hint in hints.items()}


def _typed(hint: Any) -> Option:
    kind, option = get_args(hint)[:2]
    assert get_origin(hint) is Annotated and isinstance(option, Option)
    kinds = [part for part in _members(kind) if part is not type(None)]
    takes = option.takes or (SWITCH if kinds == [bool] else VALUE)
    number = next((part for part in (int, float) if kinds == [part]), None)
    return replace(option, takes=takes, type=option.type or number)


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def field_default(kind: type, path: str) -> Any:
    """The default of a field of a dataclass, possibly nested: `settings.engine`."""
    first, _, rest = path.partition(".")
    if rest:
        return field_default(get_type_hints(kind)[first], rest)
    assert is_dataclass(kind)
    return next(entry.default for entry in fields(kind) if entry.name == first)


def filled(kind: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass with values for its fields; nested fields are given by path: `options.chat.system`."""
    own = {path: value for path, value in values.items() if "." not in path}
    hints = get_type_hints(kind)
    for first in dict.fromkeys(path.partition(".")[0] for path in values if "." in path):
        own[first] = filled(hints[first], dict(_below(first, values)))
    return kind(**own)


def _below(first: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if head == first and rest:
            yield rest, value


def split_names(values: str | Sequence[str]) -> list[str]:
    """Names given with blanks or commas between them."""
    texts = [values] if isinstance(values, str) else values
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def joined_names(values: Sequence[str]) -> str:
    """Names given as several words, joined with commas."""
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
        raise UserError(Fault("--samples", "has the wrong shape", '{"task": [0, 5]}'))
    return data


def _is_index_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(index) is int for index in value)


def read_count(flag: str, all_of_them: int | None = None) -> Callable[[str], int | None]:
    """Reads a number of documents, or `all`.

    Args:
        flag: the option, for errors.
        all_of_them: the value of `all`.
    """

    def read(text: str) -> int | None:
        if text == "all":
            return all_of_them
        if not text.isdecimal():
            raise UserError(Fault(flag, f'is "{text}"', "a number of documents, or all"))
        return int(text)

    return read


def read_margin(flag: str) -> Callable[[str], float]:
    """Reads a positive difference."""

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
