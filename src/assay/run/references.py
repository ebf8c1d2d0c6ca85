"""Recorded runs that a run is held against, document by document.

Takes a run's name and tasks, gives every document's value; whether the documents are the same is proven by content.
A run is reopened only where it kept no values, or where its documents are not today's and the difference is to be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.comparisons import DocumentValues
from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError, did_you_mean
from assay.core.identity import digest_all, document_digest
from assay.core.protocols import Task
from assay.core.sparing import Reference
from assay.core.specs import RunSpec
from assay.run.events import ignore
from assay.run.posing import chosen_documents
from assay.run.sides import Side, load_sides, values_of
from assay.store.runs import RunRecord
from assay.store.store import Store


def load_references(store: Store, run: str, tasks: Sequence[Task], flag: str) -> dict[str, Reference]:
    """The same tasks of a recorded run, by their names.

    Args:
        store: holds the run.
        run: its name, the start of it, or `last`.
        tasks: tasks of this run; one that the other lacks is an error.
        flag: who asks, for errors.
    """
    record, names = store.runs.get(run), [task.card.name for task in tasks]
    known = list(record.tasks)
    lacking = [name for name in names if name not in known]
    if lacking:
        found = ", ".join(f'"{name}"{did_you_mean(name, known)}' for name in lacking)
        raise UserError(Fault(f"{flag} {run}", f"has no task {found}", "the tasks of this run: " + ", ".join(known)))
    own = {name: kept for task, name in zip(tasks, names, strict=True) if (kept := _kept(store, record, task))}
    if len(own) < len(names):
        own = {**_reopened(store, record, tasks, flag), **own}
    return {name: own[name] for name in names}


def _kept(store: Store, record: RunRecord, task: Task) -> Reference | None:
    """A task from the values that the run kept; None where it kept none, or asked other documents."""
    name = task.card.name
    kept = store.values.of_run(record.id, name)
    documents = _asked(record, task) if kept else ()
    found = digest_all(document.fields for document in documents)
    if not kept or found != record.tasks[name]["documents_fingerprint"]:
        return None
    values = {(item.metric, item.filter): dict(_numbers(item)) for item in kept}
    return Reference(record.id, name, contents(documents), values)


def _asked(record: RunRecord, task: Task) -> Sequence[Document]:
    """Today's documents at the places that the run asked about; nothing where there are no such places any more."""
    everything, places = task.documents(), record.tasks[task.card.name].get("sample")
    try:
        if places is not None:
            return [everything[place] for place in places]
        return chosen_documents(task, RunSpec.from_json(record.spec))
    except (DataError, IndexError):
        return ()


def _numbers(kept: DocumentValues) -> Iterator[tuple[int, float]]:
    for place, value in zip(kept.documents, kept.values, strict=True):
        if not isinstance(value, tuple):
            yield place, float(value)


def _reopened(store: Store, record: RunRecord, tasks: Sequence[Task], flag: str) -> dict[str, Reference]:
    """The tasks scored anew from the stored answers, under the scoring of then."""
    names = [task.card.name for task in tasks]
    sides = load_sides(store, record, names, ignore)
    if any(side.needs_object for side in sides.values()):
        sides = load_sides(store, record, names, ignore, tasks)
    return {name: _reference(side, flag) for name, side in sides.items()}


def _reference(side: Side, flag: str) -> Reference:
    if side.result is None or side.posed is None:
        raise UserError(Fault(f"{flag} {side.record.id}", f"cannot be read again: {side.reason}", "a run as it was"))
    values = {(score.metric, score.filter): values_of(side.result, score) for score in side.scores()}
    return Reference(side.record.id, side.name, contents(side.posed.documents), values)


def contents(documents: Sequence[Document]) -> dict[int, str]:
    """Document → digest of its content."""
    return {document.id: document_digest(document) for document in documents}


def check_documents(reference: Reference, documents: Sequence[Document], flag: str, is_whole: bool) -> None:
    """The reference asked about the same documents.

    Args:
        reference: a task of a recorded run.
        documents: all documents of the same task today.
        flag: who asks, for errors.
        is_whole: whether the reference must have asked about every one of them.
    """
    where, own = f"{flag} {reference.run}, task {reference.task}", contents(documents)
    shared = [place for place, content in reference.contents.items() if own.get(place) == content]
    if len(shared) < len(reference.contents):
        found = f"{len(reference.contents) - len(shared)} of its {len(reference.contents)} documents are others"
        raise DataError(Fault(where, found, "the same documents at the same places"))
    if is_whole and len(shared) < len(own):
        found = f"asked about {len(shared)} of {len(own)} documents"
        raise DataError(Fault(where, found, "a run on all documents", "Run it without --limit and --sample"))
