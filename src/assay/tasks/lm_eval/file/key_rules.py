"""A key's rule, and the faults of a mapping against such rules.

Takes the rules and a mapping of a task file, gives faults with file, line and key path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, did_you_mean
from assay.tasks.lm_eval.file.value_checks import advice, key_fault, nearest, show
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile

# Keys of the dialect whose value is always Python code.
CODE_KEYS = frozenset({"class", "custom_dataset", "process_docs", "process_results"})
# Keys of the dialect that this version does not serve.
UNSERVED_KEYS = frozenset({"use_prompt"})


@dataclass(frozen=True, slots=True)
class KeySchema:
    """A key's rule: what it should be, in words and as a test."""

    expected: str
    accepts: Callable[[Any], bool]


def is_type(*types: type) -> Callable[[Any], bool]:
    """Type test that does not take True for a number."""
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


TEXT = KeySchema("text", is_type(str))
FLAG = KeySchema("true or false", is_type(bool))
MAPPING = KeySchema("a mapping", is_type(dict))
LIST = KeySchema("a list", is_type(list))
COUNT = KeySchema("a whole number, 0 or more", is_count)
DOC_TEXT = KeySchema("a column, a template or a whole number", is_type(str, int))
DOC_TARGET = KeySchema("a column, a template, a whole number or a list", is_type(str, int, list))
DOC_CHOICE = KeySchema("a column, a template, a list or a mapping", is_type(str, list, dict))
COLUMN = KeySchema("a column or a template", is_type(str))


def key_faults(
    file: TaskFile, keys: Mapping[str, KeySchema], data: Mapping[Any, Any], above: tuple[Any, ...]
) -> list[Fault]:
    """Keys that there are not, and values that do not fit.

    Args:
        file: the file.
        keys: the rules.
        data: a mapping of the file.
        above: the keys below which it stands.
    """
    faults = []
    for key, value in data.items():
        where = file.where(*above, key)
        if value is None or (isinstance(value, FunctionReference) and (key in keys or key in CODE_KEYS)):
            continue
        if key in CODE_KEYS:
            faults.append(Fault(where, f"is {show(value)}", "Python code: !function module.name"))
        elif key in UNSERVED_KEYS and not above:
            faults.append(Fault(where, "is not served by this version of Assay", next="Remove the key"))
        elif not isinstance(key, str):
            faults.append(key_fault(where, key))
        elif key not in keys:
            hint = did_you_mean(key, keys)
            free = "" if above or hint else "Remove it, or put notes of your own below metadata"
            faults.append(Fault(where, f'unknown key "{key}"{hint}', next=free))
        elif not keys[key].accepts(value):
            expected = keys[key].expected
            found = f"is {show(value)}{nearest(value, expected)}"
            faults.append(Fault(where, found, expected, advice(value, expected)))
    return faults
