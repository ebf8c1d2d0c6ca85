"""Explanations of YAML syntax errors, for the author of the file.

Takes the text and the parser's error, gives a fault at the line that must be fixed, which is often not the line at
which the parser stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assay.core.errors import Fault, did_you_mean

_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_VALUE = re.compile(r"^\s*(?:- +)*(?P<key>[\w.-]+)\s*:\s+(?P<value>\S.*?)\s*$|^\s*(?:- +)+(?P<item>\S.*?)\s*$")
_GLUED = re.compile(r"^\s*(?:- +)*(?P<key>[A-Za-z_]\w*):(?P<value>[^\s:/].*)$")
_WHOLE = "Put the whole value in quotes; a quote of the same kind inside is doubled ('') or gets a backslash (\\\")"
_SCALARS = {"timestamp": "a date", "int": "a whole number", "float": "a number", "bool": "true or false"}


@dataclass(frozen=True, slots=True)
class _Trouble:
    """The parts of the parser's error.

    Attributes:
        lines: the text's lines.
        problem: the parser's message.
        line: the line at which it stopped, from 0.
        column: the column in that line.
        context: what it was parsing.
        start: the line on which that begins.
    """

    lines: list[str]
    problem: str
    line: int
    column: int
    context: str
    start: int

    def text(self, line: int) -> str:
        return self.lines[line] if 0 <= line < len(self.lines) else ""

    def value(self, line: int) -> str:
        """The text after the key or the dash of a line; empty if there is none."""
        match = _VALUE.match(self.text(line))
        return (match["value"] or match["item"]) if match else ""

    @property
    def mark(self) -> str:
        """The character at which the parser stopped."""
        return self.text(self.line)[self.column : self.column + 1]


# Line from 0, what was found, what was expected, what to do.
_Diagnosis = tuple[int, str, str, str]


def syntax_fault(path: Path, text: str, error: yaml.YAMLError) -> Fault:
    """The fault of a text that the parser rejects."""
    if isinstance(error, yaml.reader.ReaderError):
        place = text.find(chr(error.character)) if isinstance(error.character, int) else 0
        found = f"is not YAML: holds the control character {error.character:#06x}"
        return Fault(f"{path}:{_line_of(text, place) + 1}", found, "text", "Remove it, or write it as an escape")
    trouble = _trouble(text, error)
    for rule in _RULES:
        diagnosis = rule(trouble)
        if diagnosis is not None:
            line, found, expected, advice = diagnosis
            return Fault(f"{path}:{line + 1}", f"is not YAML: {found}", expected, advice)
    context = f" ({trouble.context})" if trouble.context else ""
    return Fault(f"{path}:{trouble.line + 1}", f"is not YAML: {trouble.problem}{context}")


def value_faults(path: Path, loader: Any, node: yaml.Node) -> Iterator[Fault]:
    """A fault for each plain value that YAML cannot convert to the type that its form or tag implies."""
    for scalar in _scalars(node, set()):
        try:
            loader.construct_object(scalar, deep=True)
        except yaml.YAMLError:
            continue
        except (ValueError, LookupError, AttributeError, OverflowError) as error:
            kind = _SCALARS.get(scalar.tag.rpartition(":")[2], scalar.tag)
            shown = scalar.value if len(scalar.value) <= 60 else scalar.value[:57] + "…"
            reason = f" ({error})" if isinstance(error, ValueError) else ""
            where = f"{path}:{scalar.start_mark.line + 1}"
            yield Fault(where, f"'{shown}' looks like {kind}, but is not{reason}", next="Quote it to make it text")


def _scalars(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, yaml.ScalarNode):
            yield inner
        elif isinstance(inner, yaml.MappingNode):
            waiting += [part for pair in reversed(inner.value) for part in reversed(pair)]
        else:
            waiting += reversed(inner.value)


def _line_of(text: str, place: int) -> int:
    return len(_BREAK.findall(text, 0, max(place, 0)))


def _trouble(text: str, error: yaml.YAMLError) -> _Trouble:
    mark, start = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None) or ""
    return _Trouble(_BREAK.split(text), problem, line, column, context, start.line if start is not None else line)


# Rules, in the order in which they are tried: the most certain first.


def _tab(trouble: _Trouble) -> _Diagnosis | None:
    text = trouble.text(trouble.line)
    if "\t" not in text[: len(text) - len(text.lstrip())]:
        return None
    return (
        trouble.line,
        "a tab is used for indentation",
        "spaces",
        "Replace every tab at the start of a line with spaces",
    )


def _template(trouble: _Trouble) -> _Diagnosis | None:
    for line in (trouble.line, trouble.line - 1, trouble.start):
        value = trouble.value(line)
        if value.startswith(("{{", "{%", "{#")):
            found = f'the value begins with "{value[:2]}", which means a mapping in YAML'
            return (
                line,
                found,
                "a template in quotes",
                f"{_quoted(value)}, or put it on lines of its own below a bar: |",
            )
    return None


def _quoted(value: str) -> str:
    mark = next((mark for mark in ('"', "'") if mark not in value), "")
    return f"Write {mark}{value}{mark}" if mark else "Put it in quotes"


def _escape(trouble: _Trouble) -> _Diagnosis | None:
    if "unknown escape character" not in trouble.problem:
        return None
    found = f'"{trouble.text(trouble.line)[trouble.column : trouble.column + 2]}" in a double-quoted text'
    return trouble.line, found, "", "Use 'single quotes', in which a backslash is a backslash, or double the backslash"


def _open_quote(trouble: _Trouble) -> _Diagnosis | None:
    if "quoted scalar" in trouble.context and ("end of stream" in trouble.problem or "document" in trouble.problem):
        return trouble.start, "the quote opened on this line is never closed", "a closing quote", ""
    return None


def _open_bracket(trouble: _Trouble) -> _Diagnosis | None:
    if "parsing a flow" not in trouble.context:
        return None
    sort = trouble.context.rpartition(" ")[2]
    pair = {"sequence": "[ ]", "mapping": "{ }"}.get(sort, "[ ] or { }")
    found = f"the {pair} opened on this line breaks at line {trouble.line + 1}, column {trouble.column + 1}"
    advice = "Close the bracket, put commas between the items, and quote texts that hold brackets or braces"
    return trouble.start, found, "a comma or a closing bracket", advice


def _glued(trouble: _Trouble) -> _Diagnosis | None:
    """`task:name`: without the space the whole line is a string."""
    if "expected ':'" not in trouble.problem and "mapping values" not in trouble.problem:
        return None
    for line in (trouble.start, trouble.line - 1):
        match = _GLUED.match(trouble.text(line))
        if match:
            return line, "there is no space after the colon", "", f"Write {match['key']}: {match['value']}"
    return None


def _lone_text(trouble: _Trouble) -> _Diagnosis | None:
    if "expected ':'" not in trouble.problem:
        return None
    advice = "Text of several lines goes below its key and a bar (key: |), indented; or put it in quotes"
    return trouble.start, "the line is neither a key nor part of the value above", "key: value", advice


def _colon_in_value(trouble: _Trouble) -> _Diagnosis | None:
    if "mapping values are not allowed" not in trouble.problem:
        return None
    value = trouble.value(trouble.line)
    if value and re.search(r":(\s|$)", value) and trouble.column > trouble.text(trouble.line).find(value):
        return trouble.line, 'the value has ": " in it', "", _quoted(value)
    advice = "Align it with the keys above; a key that already has a value cannot hold further keys"
    return trouble.line, "the key is indented deeper than the line above allows", "", advice


def _text_after_quote(trouble: _Trouble) -> _Diagnosis | None:
    value = trouble.value(trouble.line)
    if "did not find expected" not in trouble.problem or value[:1] not in ("'", '"') or not value:
        return None
    if trouble.column <= trouble.text(trouble.line).find(value):
        return None
    return trouble.line, "text continues after the closing quote", "", _WHOLE


def _quote_left_open_before(trouble: _Trouble) -> _Diagnosis | None:
    """A quote that a later line's quote happened to close: the parser notices only there."""
    if "did not find expected" not in trouble.problem:
        return None
    for line in range(trouble.line - 1, -1, -1):
        value = trouble.value(line)
        mark = value[:1]
        if mark not in ("'", '"') or value.count(mark) != 1 or mark not in trouble.text(trouble.line):
            continue
        if not any(mark in trouble.text(between) for between in range(line + 1, trouble.line)):
            found = f"the quote opened on this line is closed by the next one, on line {trouble.line + 1}"
            return line, found, "a closing quote", ""
    return None


def _indentation(trouble: _Trouble) -> _Diagnosis | None:
    if "did not find expected" not in trouble.problem or "block" not in trouble.context:
        return None
    advice = "Start the keys of one mapping, and the dashes of one list, in the same column"
    return trouble.line, "the line is not indented like its neighbours", "", advice


def _bad_start(trouble: _Trouble) -> _Diagnosis | None:
    is_mark = "cannot start any token" in trouble.problem
    is_alias = "scanning an a" in trouble.context or "undefined alias" in trouble.problem
    if not is_mark and not is_alias:
        return None
    mark = (trouble.value(trouble.line) or trouble.mark)[:1] if is_alias else trouble.mark
    meaning = "means an alias or an anchor" if is_alias else "is reserved"
    return trouble.line, f'a value begins with "{mark}", which {meaning} in YAML', "", "Put the value in quotes"


def _tag(trouble: _Trouble) -> _Diagnosis | None:
    match = re.search(r"constructor for the tag '(.*)'", trouble.problem)
    if match is None:
        return None
    name = match[1].replace("tag:yaml.org,2002:", "!!")
    if name in ("!!value", "!!merge"):
        return (
            trouble.line,
            f'a lone "{trouble.value(trouble.line)}" has a special meaning in YAML',
            "",
            "Put it in quotes",
        )
    return trouble.line, f'unknown tag "{name}"{did_you_mean(name, ["!function"])}', "!function or plain data", ""


def _key_that_is_data(trouble: _Trouble) -> _Diagnosis | None:
    if "unhashable key" not in trouble.problem:
        return None
    return trouble.line, "a list or a mapping is used as a key", "a key that is text", "Put it in quotes"


def _second_document(trouble: _Trouble) -> _Diagnosis | None:
    if "another document" not in trouble.problem:
        return None
    return trouble.line, "a second document begins (---)", "one task or group per file", "Split the file"


def _dash_behind_key(trouble: _Trouble) -> _Diagnosis | None:
    if "block sequence entries are not allowed" not in trouble.problem:
        return None
    return (
        trouble.line,
        "a dash follows a key on the same line",
        "",
        "Begin the list on a line of its own, or quote the dash",
    )


_RULES: tuple[Callable[[_Trouble], _Diagnosis | None], ...] = (
    _tab,
    _template,
    _escape,
    _open_quote,
    _open_bracket,
    _glued,
    _lone_text,
    _colon_in_value,
    _quote_left_open_before,
    _text_after_quote,
    _indentation,
    _bad_start,
    _tag,
    _key_that_is_data,
    _second_document,
    _dash_behind_key,
)
