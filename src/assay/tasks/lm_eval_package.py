"""lm-eval's own tasks by name: `lm_eval/NAME` is a task, group or tag of the installed package `lm_eval`.

Takes such a name, gives the catalog of the package's task files. The package is found without importing it, and its
files are read only if a name asks for them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from assay.core.errors import UserError, missing_extra
from assay.core.task_variants import LM_EVAL_PREFIX
from assay.tasks.catalog import Catalog
from assay.tasks.catalog_entries import TaskEntry
from assay.tasks.lm_eval.file.python_code import INSTALL_LM_EVAL, LM_EVAL_EXTRA
from assay.tasks.lm_eval.file.yaml_reader import read_task_file, references

PACKAGE = "lm_eval"
PREFIX = LM_EVAL_PREFIX
INSTALL = INSTALL_LM_EVAL


def package_tasks() -> Path | None:
    """The folder of the installed package's task files; None if there is none."""
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        spec = None
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((folder for place in places if (folder := Path(place) / "tasks").is_dir()), None)


def package_catalog(cache_folder: Path | None, wanted: str) -> Catalog:
    """The index of the package's tasks, by lm-eval's own names.

    Args:
        cache_folder: folder of the cached index; None for no cache.
        wanted: what the user asks for, for errors.
    """
    folder = package_tasks()
    if folder is None:
        raise missing_extra(PACKAGE, LM_EVAL_EXTRA, wanted)
    return _catalog(folder, cache_folder)


@lru_cache(maxsize=1)
def _catalog(folder: Path, cache_folder: Path | None) -> Catalog:
    return Catalog([folder], cache_folder, is_extension=False)


def prefixed_entries(catalog: Catalog) -> Mapping[str, TaskEntry]:
    """The entries of the package's catalog under the names that a run uses."""
    return {
        PREFIX + name: replace(
            entry,
            name=PREFIX + name,
            members=tuple(PREFIX + member if member in catalog.entries else member for member in entry.members),
        )
        for name, entry in catalog.entries.items()
    }


def names_code(name: str, catalog: Catalog) -> bool:
    """Whether the file of a task, or of any task below a group or tag, names Python code."""
    waiting, known = [name], {name}
    while waiting:
        entry = catalog.entries.get(waiting.pop())
        if entry is None:
            continue
        if entry.path is not None and _has_references(entry.path):
            return True
        waiting += [member for member in entry.members if member not in known]
        known.update(entry.members)
    return False


def _has_references(path: Path) -> bool:
    try:
        return any(True for _ in references(read_task_file(path).data))
    except UserError:  # a run reports what is wrong with it
        return False
