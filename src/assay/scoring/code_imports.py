"""Finds packages that task code imports only when called, by static analysis of its source.

In: a function or class that a task file names. Out: the modules that its body imports unconditionally, and the metrics
of `evaluate` that it loads, also in functions of the same code that it calls. Imports under an `if`, or in a `try`
that expects them to fail, may never run and are ignored.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import Any

_LM_EVAL, _OWN, _EVALUATE = "lm_eval", "assay", "evaluate"
# Methods that are called of a class: a filter is constructed and applied.
_CALLED = ("__init__", "__call__", "apply")
_EXPECTED = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_MAY_NOT_RUN = (ast.If, ast.While, ast.Match, ast.IfExp)


@dataclass(slots=True)
class LateImports:
    """The imports found.

    Attributes:
        modules: module → the function that imports it.
        metrics: metric of `evaluate` → the function that loads it.
        called: Assay's own functions that are called, which may declare the packages they need.
    """

    modules: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    called: list[Any] = field(default_factory=list)


def late_imports(thing: Any) -> LateImports:
    """The imports of a task's function or class when it is called; empty if its source cannot be read."""
    return _scan(thing) if thing.__hash__ is not None else _scan.__wrapped__(thing)


@functools.lru_cache(maxsize=1024)  # tasks of a family share their functions
def _scan(thing: Any) -> LateImports:
    found, seen = LateImports(), set()
    waiting = list(_functions(thing))
    while waiting:
        function = waiting.pop()
        if function in seen or not _is_task_code(function):
            found.called += [function] if hasattr(function, "package") else []
            continue
        seen.add(function)
        body = _body(function)
        for node in _unconditional_nodes(body):
            waiting.extend(_visit(node, function, found))
    return found


def _functions(thing: Any) -> Iterator[FunctionType]:
    """The functions behind an object that a task file names: of a class those that are called."""
    while isinstance(thing, (functools.partial, MethodType)):
        thing = thing.func if isinstance(thing, functools.partial) else thing.__func__
    if isinstance(thing, FunctionType):
        yield inspect.unwrap(thing)
    elif isinstance(thing, type):
        yield from (own for name in _CALLED if isinstance(own := getattr(thing, name, None), FunctionType))
    elif callable(thing):
        own = getattr(type(thing), "__call__", None)  # noqa: B004  (the function itself is needed)
        yield from (own,) if isinstance(own, FunctionType) else ()


def _is_task_code(function: FunctionType) -> bool:
    """Whether a function belongs to neither Assay nor an installed package."""
    root = (function.__module__ or "").partition(".")[0]
    return root != _OWN and not function.__code__.co_filename.startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    """The folders of installed packages and of the standard library."""
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def _body(function: FunctionType) -> list[ast.AST]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):  # created at run time, or a lambda within an expression
        return []
    first = tree.body[0] if tree.body else None
    return list(first.body) if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)) else []


def _unconditional_nodes(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """The nodes that run whenever the body runs, whatever the values."""
    for node in nodes:
        yield node
        if isinstance(node, _DEFINITIONS):
            continue
        if isinstance(node, _MAY_NOT_RUN):
            yield from _unconditional_nodes([node.subject if isinstance(node, ast.Match) else node.test])
        elif isinstance(node, ast.BoolOp):
            yield from _unconditional_nodes([node.values[0]])
        elif isinstance(node, ast.Try):
            yield from _unconditional_nodes([*([] if _expects_failure(node) else node.body), *node.finalbody])
        else:
            yield from _unconditional_nodes(list(ast.iter_child_nodes(node)))


def _expects_failure(node: ast.Try) -> bool:
    caught = [name for handler in node.handlers for name in _names(handler.type)]
    return any(handler.type is None for handler in node.handlers) or not set(caught).isdisjoint(_EXPECTED)


def _names(node: ast.AST | None) -> list[str]:
    return [] if node is None else [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _visit(node: ast.AST, function: FunctionType, found: LateImports) -> list[FunctionType]:
    """Records what a node imports or loads; returns the functions that it calls."""
    name = function.__name__
    if isinstance(node, ast.Import):
        _record(found, [alias.name for alias in node.names], name)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        _record(found, [node.module], name)
    elif isinstance(node, ast.Call):
        metric = _loaded_metric(node, function)
        if metric is not None:
            found.metrics.setdefault(metric, name)
        called = _resolve_name(node.func, function)
        return [] if called is None else list(_functions(called))
    return []


def _record(found: LateImports, modules: list[str], name: str) -> None:
    for module in modules:
        root = module.partition(".")[0]
        if root not in (_LM_EVAL, _OWN) and root not in sys.stdlib_module_names:
            found.modules.setdefault(root, name)


def _resolve_name(node: ast.AST, function: FunctionType) -> Any:
    """The object that a name, or an attribute of a module, refers to in the function's file; None if unknown."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = function.__globals__.get(node.value.id)
        return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
    return None


def _loaded_metric(node: ast.Call, function: FunctionType) -> str | None:
    """The metric in `evaluate.load("name")`; None for any other call, and for one with further arguments."""
    call = node.func
    if not (isinstance(call, ast.Attribute) and call.attr == "load" and isinstance(call.value, ast.Name)):
        return None
    owner = function.__globals__.get(call.value.id)
    is_evaluate = call.value.id == _EVALUATE if owner is None else getattr(owner, "__name__", "") == _EVALUATE
    is_plain = is_evaluate and len(node.args) == 1 and not node.keywords
    first = node.args[0] if is_plain else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
