"""The reference side of `loading`: builds every task and group of lm-eval's tree with its code, without data.

    python -m parity.reference_loading OUT.json

A task is built up to the point where it would load its data; then its filters are. Classes are built the same way. Out:
kind → name → error, or None for what was built.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lm_eval.tasks._factory as factory
from lm_eval.api import registry
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.filters import build_filter_ensemble
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import Entry, Kind

GROUP, TASK = "group", "task"


class _ReadyForData(Exception):
    """Raised when a task would load its data."""


class Built:
    """Placeholder of a task in a group."""

    def __init__(self, name: str) -> None:
        self.task_name = name


def _stop(*arguments: Any, **settings: Any) -> None:
    raise _ReadyForData


def made(name: str, make: Callable[[], Any], config: dict[str, Any]) -> Built:
    """Builds a task up to its data."""
    try:
        make()
    except _ReadyForData:
        pass
    for pipeline in config.get("filter_list") or []:
        steps = [[step["function"], {k: v for k, v in step.items() if k != "function"}] for step in pipeline["filter"]]
        build_filter_ensemble(pipeline["name"], steps)
    return Built(name)


class Factory(factory.TaskFactory):  # type: ignore[misc]  # lm-eval is not installed when this is checked
    """lm-eval's factory, with tasks that need no data. A task that many groups name alike is built once."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Any] = {}

    def _build_task(self, entry: Entry, overrides: dict[str, Any] | None) -> Built:
        if overrides and overrides != {"task": entry.name}:
            return self._made(entry, overrides)
        if entry.name not in self._known:
            try:
                self._known[entry.name] = self._made(entry, overrides)
            except Exception as error:
                self._known[entry.name] = error
        if isinstance(self._known[entry.name], Exception):
            raise self._known[entry.name]
        return Built(entry.name)

    def _made(self, entry: Entry, overrides: dict[str, Any] | None) -> Built:
        config = self._load_full_config(entry, overrides)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        own = config.get("class")
        if own is None:
            return made(config["task"], lambda: ConfigurableTask(config=config), config)
        takes_config = factory._ctor_accepts_config(own)
        return made(config["task"], lambda: own(config=config) if takes_config else own(), {})


def _any_metric(name: str, hf_evaluate_metric: bool = False) -> Any:
    """lm-eval looks up unknown metrics in `evaluate`, on the Hub, and continues if they are missing."""
    known = not hf_evaluate_metric and name in registry.metric_registry
    return registry.get_metric(name) if known else None


def without_data() -> None:
    """Tasks stop when they would load data, and metrics of `evaluate` are not fetched when a task is built."""
    Task.download = ConfigurableTask.download = _stop
    factory.load_yaml = functools.cache(factory.load_yaml)
    factory.ConfigurableTask = lambda config: made(config["task"], lambda: ConfigurableTask(config=config), config)
    sys.modules[ConfigurableTask.__module__].get_metric = _any_metric  # type: ignore[attr-defined]


def outcomes() -> dict[str, dict[str, str | None]]:
    """Everything in lm-eval's index, built or not."""
    index = TaskManager().task_index
    builder = Factory()
    found: dict[str, dict[str, str | None]] = {TASK: {}, GROUP: {}}
    for name, entry in list(index.items()):
        if entry.kind is Kind.TAG:
            continue
        kind = GROUP if entry.kind is Kind.GROUP else TASK
        try:
            builder.build(entry, overrides=None, registry=index)
            found[kind][name] = None
        except BaseException as error:  # code of others may even end the program
            found[kind][name] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("lm_eval").setLevel(logging.CRITICAL)
    without_data()
    Path(sys.argv[1]).write_text(json.dumps(outcomes()), encoding="utf-8")


if __name__ == "__main__":
    main()
