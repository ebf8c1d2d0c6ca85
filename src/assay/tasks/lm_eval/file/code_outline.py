"""Static checks of the Python code that task files name, without running it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from assay.core.errors import Fault, did_you_mean
from assay.tasks.lm_eval.file.python_code import source_of
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile, references

# Constructs that define names dynamically.
_MADE_NAMES = re.compile(r"\b(globals|locals|vars|setattr|exec|__getattr__)\b")


def missing_code_faults(file: TaskFile) -> list[Fault]:
    """Faults of references to code that does not exist."""
    found = (_reference_fault(file.where(*keys), reference) for keys, reference in references(file.data))
    return [fault for fault in found if fault is not None]


def registered_filters(file: TaskFile) -> frozenset[str]:
    """Names under which the code of a task file registers filters, as far as they are literals."""
    sources = {source_of(reference) for _, reference in references(file.data)} - {None}
    return frozenset(name for source in sources if source is not None for name in _registered(source))


@lru_cache(maxsize=1024)
def _registered(source: Path) -> tuple[str, ...]:
    try:
        return tuple(re.findall(r"@register_filter\(\s*[\"']([^\"']+)", source.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ()


def _reference_fault(where: str, reference: FunctionReference) -> Fault | None:
    module, _, name = reference.text.rpartition(".")
    if not module:
        return None  # a separate fault, which the schema reports
    source = source_of(reference)
    if source is None:
        return _module_fault(where, reference, module)
    try:
        names = _names(source, source.stat().st_mtime_ns)
    except (OSError, SyntaxError, ValueError) as error:
        return Fault(where, f"{source} cannot be parsed as Python: {error}")
    if names is None or name in names:
        return None
    return Fault(where, f"{source} has no {name}{did_you_mean(name, names)}", "a function or class that it defines")


def _module_fault(where: str, reference: FunctionReference, module: str) -> Fault | None:
    package = module.partition(".")[0]
    if package == "lm_eval" or importlib.util.find_spec(package) is not None:
        return None
    beside = reference.folder / (module.replace(".", "/") + ".py")
    return Fault(
        where, f'"{reference}" names code that does not exist', f"a file {beside}, or an installed module {module}"
    )


@lru_cache(maxsize=1024)
def _names(source: Path, stamp: int) -> frozenset[str] | None:
    """Names that a module defines at its top level; None if they are unknown (`from x import *`, `globals()[…] =`)."""
    text = source.read_text(encoding="utf-8")
    names = set(_bound(ast.parse(text).body))
    return None if "*" in names or _MADE_NAMES.search(text) else frozenset(names)


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        else:
            for inner in ("body", "orelse", "finalbody"):
                yield from _bound(getattr(statement, inner, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _bound(handler.body)
