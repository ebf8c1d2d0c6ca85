"""Shows single documents, how they are built and, with a model, their tokens; and the cards of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.call_checks import checked
from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError
from assay.core.plural import plural
from assay.core.protocols import ExposesTokens, FewShotExample, Model, ProvidesFewShotExamples, Task, TokenView
from assay.core.requests import Instance
from assay.core.specs import RunSpec
from assay.run.build import selected_documents
from assay.run.events import ignore
from assay.run.resolve import check_data, resolve, resolve_tasks
from assay.store.store import Store
from assay.tasks.cards import cards
from assay.tasks.catalog import open_catalog
from assay.tasks.selection import Wanted


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document with its requests; token views if a model was named, few-shot examples if there are any."""

    task: Task
    document: Document
    instance: Instance
    tokens: tuple[TokenView, ...] = ()
    examples: tuple[FewShotExample, ...] = ()


def show_documents(
    spec: RunSpec, tasks: Sequence[Wanted], index: int, model: str | Model | None, store: Store | None = None
) -> list[ShownDocument]:
    """The document at an index of every task; the store lists models that were trained here."""
    if model is None:
        chosen = resolve_tasks(spec, tasks, open_catalog(spec.include_path)).tasks
        check_data(chosen, spec)
        return [_shown(task, index, spec, None) for task in chosen]
    setup = resolve(spec, tasks, None if isinstance(model, str) else model, ignore, store)
    try:
        return [_shown(task, index, spec, setup.model) for task in setup.tasks]
    finally:
        if isinstance(model, str):
            setup.model.close()


def _shown(task: Task, index: int, spec: RunSpec, model: Model | None) -> ShownDocument:
    documents = selected_documents(task, spec)
    if not 0 <= index < len(documents):
        where = f"task {task.card.name}"
        raise DataError(Fault(where, f"has no document {index}", f"a place from 0 to {len(documents) - 1}"))
    instance = task.build(documents[index])
    views: tuple[TokenView, ...] = ()
    if model is not None and model.capabilities.can_tokenize and isinstance(model, ExposesTokens):
        views = tuple(model.view(request) for request in instance.requests)
    examples = tuple(task.examples(documents[index])) if isinstance(task, ProvidesFewShotExamples) else ()
    return ShownDocument(task, documents[index], instance, views, examples)


@checked()
def task_card(task: str, include_path: Sequence[str] = ()) -> dict[str, Any]:
    """Facts about a task or group: dataset, metrics, chance level, published numbers; for a group also its tasks.

    Args:
        task: name of a task or group, or the path of its file.
        include_path: folders with more task files.
    """
    found = cards([task], open_catalog(include_path))
    if len(found) != 1:
        raise UserError(Fault("task", f'"{task}" names {plural(len(found), "task")}', "one task or group"))
    return found[0]
