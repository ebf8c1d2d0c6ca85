"""Rules for keys of a task file and checks of their values: types, choices, generation settings, patterns, groups.

Takes a merged task file, gives the faults of its values with file, line and key path, and advice for values of the
wrong kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from assay.core.errors import Fault, closest, did_you_mean
from assay.tasks.lm_eval.build.generation_settings import LENGTH_NAMES
from assay.tasks.lm_eval.file.groups import AGGREGATE_KEYS, MEMBER
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile

# Keys of the dialect whose value is always Python code.
CODE_KEYS = frozenset({"class", "custom_dataset", "process_docs", "process_results"})
# Keys of the dialect that this version does not support.
UNSERVED_KEYS = frozenset({"use_prompt"})
_NO_BOOLEANS = "Quote it: without quotes yes, no, on, off, true and false are booleans in YAML"
_PATTERN_FILTERS = ("regex", "multi_choice_regex")
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}", re.DOTALL)
_BARE_NAME = re.compile(r"\s*\{\{\s*[\w.]+\s*\}\}\s*")
_ONE_BRACE = re.compile(r"(?<!\{)\{\s*([A-Za-z_]\w*)\s*\}(?!\})")


def show(value: Any) -> str:
    """A value and its type, shortened."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def nearest(value: Any, expected: str) -> str:
    """The nearest of the expected words, for keys that take one of a few words."""
    words = re.split(r", | or ", expected.removeprefix("one of "))
    is_word = isinstance(value, str) and (expected.startswith("one of ") or expected == "default or first_n")
    return did_you_mean(value, words) if is_word else ""


def advice(value: Any, expected: str) -> str:
    """Advice for a value of the wrong type, if the type suggests what was meant."""
    if isinstance(value, dict) and expected.startswith(("text", "a column")):
        is_template = bool(value) and all(item is None for item in value.values())
        return "Put a template in quotes: without them braces mean a mapping in YAML" if is_template else ""
    if expected.startswith("text") and isinstance(value, (bool, int, float, date)):
        return _quote(value)
    if isinstance(value, str) and expected.startswith(("a whole number", "true or false")):
        is_quoted = value.isdecimal() or value.lower() in ("true", "false")
        return f"Remove the quotes: {value.lower()}" if is_quoted else ""
    if expected == "a list of texts" and isinstance(value, list) and any(isinstance(item, bool) for item in value):
        return _NO_BOOLEANS
    if expected.startswith("a list") and isinstance(value, dict):
        return 'Begin each item with a dash: "- "'
    return "Remove the dashes" if expected == "a mapping" and isinstance(value, list) else ""


def key_fault(where: str, key: Any) -> Fault:
    """The fault of a key that is not text: a bare `yes` is True."""
    return Fault(where, f"the key is {show(key)}", "text", _quote(key))


def _quote(value: Any) -> str:
    return _NO_BOOLEANS if isinstance(value, bool) else f'Quote it: "{value}"'


# Keys and their rules


@dataclass(frozen=True, slots=True)
class KeySchema:
    """A key's rule: the expected value, in words and as a test."""

    expected: str
    accepts: Callable[[Any], bool]


def is_type(*types: type) -> Callable[[Any], bool]:
    """Type test that does not accept True as a number."""
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_sample_size(value: Any) -> bool:
    """Whether a value is the size of a sample: a count, a share below 1, or a count and a seed of Python's Random."""
    if isinstance(value, dict):
        return (
            set(value) == {"documents", "python_seed"} and all(map(is_count, value.values())) and value["documents"] > 0
        )
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return 0 < value < 1 or (value >= 1 and value == int(value))


TEXT = KeySchema("text", is_type(str))
FLAG = KeySchema("true or false", is_type(bool))
MAPPING = KeySchema("a mapping", is_type(dict))
LIST = KeySchema("a list", is_type(list))
COUNT = KeySchema("a whole number, 0 or more", is_count)
DOC_TEXT = KeySchema("a column, a template or a whole number", is_type(str, int))
DOC_TARGET = KeySchema("a column, a template, a whole number or a list", is_type(str, int, list))
DOC_CHOICE = KeySchema("a column, a template, a list or a mapping", is_type(str, list, dict))
COLUMN = KeySchema("a column or a template", is_type(str))
SAMPLE_SIZE = KeySchema(
    "a number of documents, a share below 1, or {documents: NUMBER, python_seed: NUMBER}", is_sample_size
)


def key_faults(
    file: TaskFile, keys: Mapping[str, KeySchema], data: Mapping[Any, Any], above: tuple[Any, ...]
) -> list[Fault]:
    """Faults of unknown keys and of values that violate their key's rule.

    Args:
        file: the file.
        keys: the rules.
        data: a mapping of the file.
        above: the key path of that mapping.
    """
    faults = []
    for key, value in data.items():
        where = file.where(*above, key)
        if value is None or (isinstance(value, FunctionReference) and (key in keys or key in CODE_KEYS)):
            continue
        if key in CODE_KEYS:
            faults.append(Fault(where, f"is {show(value)}", "Python code: !function module.name"))
        elif key in UNSERVED_KEYS and not above:
            faults.append(Fault(where, "is not supported by this version of Assay", next="Remove the key"))
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


# Values


def choice_faults(file: TaskFile, data: Mapping[Any, Any], above: tuple[Any, ...]) -> Iterator[Fault]:
    """Choices that are not text: a bare `yes` is True."""
    choices = data.get("doc_to_choice")
    path = (*above, "doc_to_choice")
    if not isinstance(choices, (list, dict)):
        return
    if not choices:
        yield Fault(file.where(*path), f"is {show(choices)}", "at least one choice")
    for key, choice in choices.items() if isinstance(choices, dict) else enumerate(choices):
        if not isinstance(choice, str):
            is_plain = not isinstance(choice, (dict, list, FunctionReference)) and choice is not None
            yield Fault(file.where(*path, key), f"is {show(choice)}", "text", _quote(choice) if is_plain else "")


def listed_choices(choices: Any) -> list[Any]:
    """The choices that a task file lists; empty if it gives a template or a column."""
    return list(choices.values()) if isinstance(choices, dict) else choices if isinstance(choices, list) else []


def template_choices(choices: Any) -> list[str]:
    """Choices of a list that are templates; a list is used literally, so they are not rendered."""
    return [choice for choice in listed_choices(choices) if isinstance(choice, str) and _TEMPLATE.search(choice)]


def gold_faults(file: TaskFile, data: Mapping[Any, Any], above: tuple[Any, ...]) -> Iterator[Fault]:
    """Choices and targets with which no answer can be right, as far as the file alone shows."""
    choices, target, where = data.get("doc_to_choice"), data.get("doc_to_target"), file.where
    for choice in template_choices(choices)[:1]:
        found = f"lists the choice {choice!r}, but templates in a list are not filled in"
        yield Fault(where(*above, "doc_to_choice"), found, "one template for all choices", 'Write "{{[A, B]}}"')
    if not isinstance(choices, (dict, list)) or isinstance(target, bool):
        return
    listed = listed_choices(choices)
    if isinstance(target, int) and not -len(listed) <= target < len(listed):
        yield Fault(where(*above, "doc_to_target"), f"is {target}", f"an index from 0 to {len(listed) - 1}")
    is_bare = isinstance(target, str) and bool(_BARE_NAME.fullmatch(target))
    are_digits = bool(listed) and all(isinstance(item, str) and item.isdecimal() for item in listed)
    if is_bare and are_digits and any(int(item) != place for place, item in enumerate(listed)):
        found = f"is {target!r}: the digits of a template are read as an index from 0, and the choices are digits"
        yield Fault(where(*above, "doc_to_target"), found, "a column's name alone", "Remove the braces")


def _is_number(value: Any) -> bool:
    """Whether lm-eval's `float(…)` accepts it: `1e-3` is a string in YAML 1.1."""
    try:
        return not isinstance(value, bool) and math.isfinite(float(value)) and float(value) >= 0
    except (TypeError, ValueError, OverflowError):
        return False


def _is_length(value: Any) -> bool:
    return _is_number(value) and not isinstance(value, str) and value >= 1 and float(value).is_integer()


def is_texts(value: Any) -> bool:
    """Whether a value is a text or a list of texts."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _is_plain(value: Any) -> bool:
    """Whether a value can be written as JSON and read back."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int)) or value is None or (isinstance(value, float) and math.isfinite(value))


GENERATION_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "until": ("text or a list of texts", is_texts),
    "temperature": ("a number, 0 or more", _is_number),
    "do_sample": ("true or false", lambda value: isinstance(value, bool)),
    **dict.fromkeys(LENGTH_NAMES, ("a whole number, 1 or more", _is_length)),
}


def generation_faults(file: TaskFile) -> Iterator[Fault]:
    """Generation settings with invalid values."""
    settings = file.data.get("generation_kwargs")
    if not isinstance(settings, dict):
        return
    for key, value in settings.items():
        where = file.where("generation_kwargs", key)
        expected, accepts = GENERATION_KEYS.get(key, ("plain data", _is_plain))
        if not isinstance(key, str):
            yield key_fault(where, key)
        elif isinstance(value, FunctionReference) or value is None:
            continue
        elif not accepts(value):
            yield Fault(where, f"is {show(value)}", expected, advice(value, expected))


def key_text_faults(file: TaskFile, *path: Any) -> Iterator[Fault]:
    """Keys of a mapping that are not text; such a mapping becomes keyword arguments."""
    inner = file.data
    for key in path:
        inner = inner.get(key) if isinstance(inner, dict) else None  # type: ignore[assignment]
    for key in inner if isinstance(inner, dict) else ():
        if not isinstance(key, str):
            yield key_fault(file.where(*path, key), key)


def pattern_faults(file: TaskFile) -> Iterator[Fault]:
    """Patterns of filters that are not valid regular expressions."""
    pipelines = file.data.get("filter_list")
    for number, entry in enumerate(pipelines if isinstance(pipelines, list) else ()):
        steps = entry.get("filter") if isinstance(entry, dict) else None
        for place, step in enumerate(steps if isinstance(steps, list) else ()):
            if not isinstance(step, dict) or step.get("function") not in _PATTERN_FILTERS:
                continue
            problem = _pattern_problem(step.get("regex_pattern", ""))
            if problem:
                yield Fault(file.where("filter_list", number, "filter", place, "regex_pattern"), *problem)


def _pattern_problem(pattern: Any) -> tuple[str, str, str] | None:
    if not isinstance(pattern, str):
        return f"is {show(pattern)}", "a regular expression", advice(pattern, "text")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"{show(pattern)} does not compile: {error}", "a regular expression", ""
    return None


def entry_fault(where: str, entry: Any, needed: tuple[str, ...], expected: str) -> Fault:
    """The fault of a list entry that lacks a required key."""
    if not isinstance(entry, dict):
        write = f"Write {needed[0]}: {entry}" if isinstance(entry, str) and len(needed) == 1 else ""
        return Fault(where, f"is {show(entry)}", expected, write)
    for key in needed:
        if entry.get(key) is None:
            spelt = [name for name in entry if isinstance(name, str) and name not in needed and closest(name, [key])]
            near = f' (is "{spelt[0]}" a misspelling of it?)' if spelt else ""
            return Fault(where, f'the key "{key}" is missing{near}', expected)
    key = needed[-1]
    return Fault(where, f'the value of "{key}" is {show(entry[key])}', expected)


def metric_value_faults(file: TaskFile) -> Iterator[Fault]:
    """Faults of invalid metric settings."""
    listed = file.data.get("metric_list")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        for key, value in entry.items() if isinstance(entry, dict) else ():
            where = file.where("metric_list", number, key)
            if not isinstance(key, str):
                yield key_fault(where, key)
            elif key in ("higher_is_better", "hf_evaluate") and value is not None and not isinstance(value, bool):
                yield Fault(where, f"is {show(value)}", "true or false", advice(value, "true or false"))


def plain_text_faults(where: str, key: str, text: str, columns: Collection[str]) -> Iterator[Fault]:
    """Text that was almost certainly meant as a column: `lable`, or `{label}` with one pair of braces."""
    if key in ("doc_to_choice", "cluster") and "{" not in text:
        expected = "one of: " + ", ".join(columns)
        yield Fault(where, f'"{text}" is not a column of the sample document{did_you_mean(text, columns)}', expected)
    elif key in ("doc_to_text", "doc_to_target") and text.isidentifier() and closest(text, columns):
        meaning = "is not a column of the sample document, so it is used as literal text"
        found = f'"{text}" {meaning}{did_you_mean(text, columns)}'
        yield Fault(where, found, "a column, or a template such as {{column}}")
    for name in dict.fromkeys(_ONE_BRACE.findall(text)):
        if name in columns:
            yield Fault(where, f"{{{name}}} stays as it is: a column needs two pairs of braces", f"{{{{{name}}}}}")


def group_part_faults(file: TaskFile) -> Iterator[Fault]:
    """Faults of a group's members and aggregates."""
    group, members = file.data.get("group"), file.data.get("task")
    if isinstance(group, list):
        hint = "To put tasks in several collections, list these under tag in each task's file"
        yield Fault(file.where("group"), f"is {show(group)}", "one name", hint)
    elif group is None:
        yield Fault(file.where("group"), "has no name", "group: some_name")
    if isinstance(members, str):
        hint = f"A task that belongs to {group} has tag: {group} in place of group: {group}"
        yield Fault(file.where("task"), f"is {show(members)}", "a list of members", hint)
    elif not isinstance(members, list) or not members:
        found = "is missing" if members is None else f"is {show(members)}"
        yield Fault(file.where("task"), found, "a list of members")
    for number, member in enumerate(members if isinstance(members, list) else ()):
        if isinstance(member, str):
            continue
        names = [member.get("group"), member.get("task")] if isinstance(member, dict) else []
        if not any(isinstance(name, str) for name in names):
            keys = [key for key in member if isinstance(key, str)] if isinstance(member, dict) else []
            near = next((hint for key in keys if (hint := did_you_mean(key, ("task", "group")))), "")
            found = f"has no name{near}" if isinstance(member, dict) else f"is {show(member)}"
            yield Fault(file.where("task", number), found, MEMBER)
    yield from _aggregate_faults(file)


def _aggregate_faults(file: TaskFile) -> Iterator[Fault]:
    listed = file.data.get("aggregate_metric_list")
    entries = [listed] if isinstance(listed, dict) else listed if isinstance(listed, list) else []
    for number, entry in enumerate(entries):
        path = ("aggregate_metric_list",) if isinstance(listed, dict) else ("aggregate_metric_list", number)
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), (str, FunctionReference)):
            yield Fault(file.where(*path), f"is {show(entry)}", "a mapping such as {metric: acc}")
            continue
        for key in entry:
            if key not in AGGREGATE_KEYS:
                yield Fault(file.where(*path, key), f'unknown key "{key}"{did_you_mean(str(key), AGGREGATE_KEYS)}')
        filters = entry.get("filter_list")
        if filters is not None and not is_texts(filters):
            yield Fault(file.where(*path, "filter_list"), f"is {show(filters)}", "text or a list of texts")
