"""Jinja templates of task files: sandboxed, strict about undefined names, compiled once per text.

Template text comes from task files only; data is passed as variables and never parsed as a template.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, meta, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context

from assay.core.boxed import boxed_content
from assay.core.errors import DataError, Fault, LimitError, TaskFileError, UserError, did_you_mean
from assay.guard.jinja_sandbox import GuardedEnvironment
from assay.guard.regex import check_search_time
from assay.guard.size_limit import MOST_CHARACTERS, check_size, joined
from assay.guard.time_limit import ResourceLimit

# Maximum length of a literal in a template's result: more than any real list of choices, less than an attack.
LONGEST_LITERAL = 1_000_000


@pass_context
def _regex_replace(context: Context, text: str, pattern: str, replacement: str, count: int = 0) -> str:
    # Takes a context, so that it is not called while a template is compiled.
    check_search_time(re.compile(pattern), text)
    widest = len(replacement) + replacement.count("\\") * len(text)
    if (len(text) + 1) * widest <= MOST_CHARACTERS:
        return re.sub(pattern, replacement, text, count=count)
    check_size(widest)
    written = 0

    def counted(match: re.Match[str]) -> str:
        nonlocal written
        # Parsing a long replacement takes milliseconds, which expand() spends on every match.
        new = match.expand(replacement) if "\\" in replacement else replacement
        written += len(new)
        check_size(written)
        return new

    return re.sub(pattern, counted, text, count=count)


class _Environment(GuardedEnvironment):
    """The sandbox of task files."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        # A plain dict's key, as in {{choices.text}}: the sandbox would find it too, but by way of an exception.
        if type(obj) is dict and attribute in obj and not hasattr(dict, attribute):
            return obj[attribute]
        return super().getattr(obj, attribute)


# Collects nulls that templates write; None while nothing collects them.
_NULLS: ContextVar[list[None] | None] = ContextVar("nulls", default=None)


class WatchedNulls:
    """Collects an entry for every null that templates write within the block, as the word None.

    Entered for every document, so a class rather than a generator.
    """

    __slots__ = ("_token",)

    def __enter__(self) -> list[None]:
        found: list[None] = []
        self._token = _NULLS.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _NULLS.reset(self._token)


def _finalized(value: Any) -> Any:
    """The value itself, after recording a null."""
    if value is None and (watch := _NULLS.get()) is not None:
        watch.append(None)
    return value


def make_environment() -> GuardedEnvironment:
    """A sandbox for templates, to which a dialect may add filters and names."""
    environment = _Environment(undefined=StrictUndefined, keep_trailing_newline=True, finalize=_finalized)
    environment.filters["regex_replace"] = _regex_replace
    environment.filters["boxed"] = boxed_content
    return environment


_ENVIRONMENT = make_environment()
_LIMITED = ResourceLimit()

# Names that every template may use; a document's fields override them.
_GLOBALS = dict(_ENVIRONMENT.globals)


@lru_cache(maxsize=4096)
def _compile(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


class _Simple(NamedTuple):
    """A template that consists only of text, names and their attributes.

    Attributes:
        parts: literal texts; for each placeholder, a name and the attributes after it.
        names: the names.
    """

    parts: tuple[str | tuple[str, ...], ...]
    names: frozenset[str]


@lru_cache(maxsize=4096)
def _simple_parts(text: str) -> _Simple | None:
    """The parts of a simple template; None for any other.

    Most prompts are simple, and joining their parts is ten times faster than a Jinja context.
    """
    parts: list[str | tuple[str, ...]] = []
    for node in _ENVIRONMENT.parse(text).body:
        if not isinstance(node, nodes.Output):
            return None
        for item in node.nodes:
            part = item.data if isinstance(item, nodes.TemplateData) else _path(item)
            if part is None:
                return None
            parts.append(part)
    return _Simple(tuple(parts), frozenset(part[0] for part in parts if isinstance(part, tuple)))


def _path(node: nodes.Node) -> tuple[str, ...] | None:
    """A name and the attributes after it, as in `choices.text`; None for any other expression."""
    attributes: list[str] = []
    while isinstance(node, nodes.Getattr):
        attributes.append(node.attr)
        node = node.node
    if not isinstance(node, nodes.Name) or node.name in _GLOBALS:
        return None
    return (node.name, *reversed(attributes))


def _written(path: tuple[str, ...], fields: Mapping[str, Any]) -> Any:
    value = _at(path, fields)
    return _finalized(None) if value is None else value


def _at(path: tuple[str, ...], fields: Mapping[str, Any]) -> Any:
    value = fields[path[0]]
    for attribute in path[1:]:
        value = _ENVIRONMENT.getattr(value, attribute)
    return value


def check_syntax(text: str, compiled: Callable[[str], object] = _compile) -> str | None:
    """Syntax error of a template in words; None if there is none.

    Args:
        text: the template.
        compiled: compiles it, possibly in another dialect.
    """
    try:
        compiled(text)
    except TemplateSyntaxError as error:
        return f"template does not parse (line {error.lineno} of it): {error.message}"
    except (RecursionError, SyntaxError, MemoryError) as error:  # Jinja generates Python, which has its own limits
        return f"template is nested too deeply: {error}"
    return None


def undefined_names(text: str, known: Collection[str]) -> list[str]:
    """Names that a template reads and that are neither known nor set in it; its syntax must be valid."""
    with ResourceLimit():  # parsing evaluates constants
        found = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
    return sorted(name for name in found if name not in known and name not in _ENVIRONMENT.globals)


def render(text: str, fields: Mapping[str, Any], where: str) -> str:
    """A template filled with a document's fields.

    Args:
        text: the template.
        fields: the variables.
        where: location of the template, for errors.
    """
    try:
        simple = _simple_parts(text)
        if simple is not None and fields.keys() >= simple.names:
            return "".join([part if isinstance(part, str) else str(_written(part, fields)) for part in simple.parts])
        template = _compile(text)
        # Like `template.render`, without iterating over all globals for every document.
        context = _ENVIRONMENT.context_class(_ENVIRONMENT, {**_GLOBALS, **fields}, template.name, template.blocks)
        with _LIMITED:
            return joined(template.root_render_func(context))
    except Exception as error:  # a template may raise anything
        raise failure(error, fields, where) from error


def failure(error: Exception, fields: Mapping[str, Any], where: str) -> UserError:
    """The user error for an exception that a template raised.

    Args:
        error: the exception.
        fields: the variables of the template.
        where: its location.
    """
    if isinstance(error, LimitError):
        return error.at(f"{where}, template")
    if isinstance(error, MemoryError):
        return LimitError(Fault(f"{where}, template", "needs more memory than is available"))
    if isinstance(error, TemplateSyntaxError):
        return TaskFileError(Fault(where, f"template does not parse: {error.message}"))
    if isinstance(error, UndefinedError):
        return DataError(_undefined_fault(error, fields, where))
    if isinstance(error, SecurityError):
        return TaskFileError(Fault(where, f"template does what the sandbox forbids: {error}"))
    return DataError(Fault(where, f"template fails on a document: {type(error).__name__}: {error}"))


def _undefined_fault(error: UndefinedError, fields: Mapping[str, Any], where: str) -> Fault:
    name = re.search(r"'([^']+)' is undefined", str(error))
    hint = did_you_mean(name.group(1), fields) if name else ""
    columns = ", ".join(map(str, fields))
    return Fault(where, f"{error}{hint}", f"one of the columns: {columns}", "See: assay show TASK --doc 0")


def render_literal(text: str, fields: Mapping[str, Any], where: str) -> Any:
    """The Python literal that a template renders for a document, such as a list of choices.

    Args:
        text: the template.
        fields: the variables.
        where: location of the template, for errors.
    """
    alone = _lone_list(text, fields)
    return literal(render(text, fields, where), where) if alone is None else alone


def _lone_list(text: str, fields: Mapping[str, Any]) -> list[str] | None:
    """The list of texts that a template such as {{choices.text}} consists of; None for any other template.

    Rendering and parsing it would give the same list, at twenty times the cost.
    """
    try:
        simple = _simple_parts(text)
        if simple is None or len(simple.parts) != 1 or isinstance(simple.parts[0], str):
            return None
        value = _at(simple.parts[0], fields)
    except Exception:  # rendering will fail too, and report where
        return None
    is_plain = type(value) is list and set(map(type, value)) == {str}
    return list(value) if is_plain and _is_short(value) else None


def _is_short(texts: list[str]) -> bool:
    """Whether a list is within the limit of literals, even if every character becomes an escape of ten characters."""
    return 10 * (sum(map(len, texts)) + len(texts)) < LONGEST_LITERAL


def literal(text: str, where: str) -> Any:
    """The Python literal that a template rendered, such as a list of choices."""
    if len(text) > LONGEST_LITERAL:
        raise DataError(Fault(where, f"rendered a literal of {len(text):,} characters", f"at most {LONGEST_LITERAL:,}"))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        shown = text if len(text) <= 80 else text[:77] + "…"
        raise DataError(
            Fault(where, f"rendered {shown!r}", "a Python list such as ['yes', 'no']", "Write {{[a, b]}} or a column")
        ) from error
