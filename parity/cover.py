"""Chooses a few tasks that together use every feature of many: parity/covering.txt from shared/data/lm_eval_tasks.txt.

    python -m parity.cover [--lm-eval-python PYTHON] [--shared FOLDER] > parity/covering.txt

Every dataset, output type, filter, metric, aggregation and key of the many tasks occurs among the few, and every folder
of task files. Greedy: the task that adds most features comes next.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.tasks.catalog import open_catalog
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from parity.hub import SHARED
from parity.installation import VARIABLE, find_lm_eval

# Keys without effect on requests or scores.
PLAIN_KEYS = frozenset({"task", "task_alias", "tag", "metadata", "dataset_path", "dataset_name", "include"})
# Keys with a list of entries, and the words of an entry that name a thing of its own.
LISTS = {"metric_list": ("metric", "aggregation"), "filter": ("function",)}


def features(data: Mapping[str, Any], folder: str) -> Iterator[str]:
    """What a task file uses."""
    yield f"folder {folder}"
    yield f"dataset {data.get('dataset_path', 'of its own code')}"
    yield f"output_type {data.get('output_type', 'class' if 'class' in data else 'generate_until')}"
    for key, value in data.items():
        if key not in PLAIN_KEYS:
            yield f"{key} as {type(value).__name__}"
    for entry in data.get("metric_list") or []:
        yield from _words(entry, LISTS["metric_list"])
    for pipeline in data.get("filter_list") or []:
        for step in pipeline["filter"]:
            yield from _words(step, LISTS["filter"])
    for key in ("fewshot_config", "generation_kwargs"):
        yield from (f"{key}.{name}" for name in data.get(key) or {})


def _words(entry: Mapping[str, Any], naming: tuple[str, ...]) -> Iterator[str]:
    """Names that an entry uses: its functions and settings; for its own code, only that it has some."""
    for name, value in entry.items():
        yield f"{name} {value if isinstance(value, str) else type(value).__name__}" if name in naming else name


def cover(used: Mapping[str, frozenset[str]]) -> list[str]:
    """Names that together have all features; the first name wins a tie."""
    missing = set().union(*used.values())
    chosen: list[str] = []
    while missing:
        best = max(used, key=lambda name: len(used[name] & missing))
        chosen.append(best)
        missing -= used[best]
    return sorted(chosen)


def main() -> None:
    parser = argparse.ArgumentParser("python -m parity.cover", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lm-eval-python", help=f"a Python with lm-eval (default: {VARIABLE})")
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/lm_eval_tasks.txt")
    args = parser.parse_args()
    folder = find_lm_eval(args.lm_eval_python).tasks_folder
    entries = open_catalog([folder]).entries
    used = {}
    for name in (args.shared / "data" / "lm_eval_tasks.txt").read_text(encoding="utf-8").split():
        path = entries[name].path
        assert path is not None, "a task of lm-eval's tree is a file"
        used[name] = frozenset(features(read_task_file(path).data, path.parent.relative_to(folder).as_posix()))
    chosen = cover(used)
    print(f"# {len(chosen)} tasks that use all that {len(used)} do. Made by: python -m parity.cover")
    print("\n".join(chosen))


if __name__ == "__main__":
    main()
