"""Reference runs: the values of a recorded run, document by document.

In: a run's name and tasks. Out: the value of every document. Documents are matched by content. A run is reopened
only if it stored no values, or if its documents differ from today's and the difference is to be reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError, did_you_mean
from assay.core.identity import digest_all, document_digest
from assay.core.protocols import Task
from assay.core.scores import DocumentValues
from assay.core.specs import RunSpec
from assay.run.build import selected_documents
from assay.run.events import ignore
from assay.store.run_records import RunRecord
from assay.store.store import Store
from assay.studies.paired.recorded_tasks import ReopenedTask, reopen_tasks, values_of
from assay.studies.sampling.subsample_values import ReferenceValues


def load_references(store: Store, run: str, tasks: Sequence[Task], flag: str) -> dict[str, ReferenceValues]:
    """The same tasks of a recorded run, by their names.

    Args:
        store: holds the run.
        run: its name, the start of it, or `last`.
        tasks: tasks of this run; one that the other lacks is an error.
        flag: the option that names the run, for errors.
    """
    record, names = store.runs.get(run), [task.card.name for task in tasks]
    known = list(record.tasks)
    lacking = [name for name in names if name not in known]
    if lacking:
        found = ", ".join(f'"{name}"{did_you_mean(name, known)}' for name in lacking)
        raise UserError(Fault(f"{flag} {run}", f"has no task {found}", "the tasks of this run: " + ", ".join(known)))
    own = {
        name: kept for task, name in zip(tasks, names, strict=True) if (kept := _from_kept_values(store, record, task))
    }
    if len(own) < len(names):
        own = {**_reopened(store, record, tasks, flag), **own}
    return {name: own[name] for name in names}


def _from_kept_values(store: Store, record: RunRecord, task: Task) -> ReferenceValues | None:
    """A task from the stored values of the run; None if it stored none, or evaluated other documents."""
    name = task.card.name
    kept = store.values.of_run(record.id, name)
    documents = _evaluated_documents(record, task) if kept else ()
    found = digest_all(document.fields for document in documents)
    if not kept or found != record.tasks[name]["documents_fingerprint"]:
        return None
    values = {(item.metric, item.filter): dict(_numeric_values(item)) for item in kept}
    return ReferenceValues(record.id, name, contents(documents), values)


def _evaluated_documents(record: RunRecord, task: Task) -> Sequence[Document]:
    """Today's documents at the indices that the run evaluated; empty if these no longer exist."""
    everything, indices = task.documents(), record.tasks[task.card.name].get("sample")
    try:
        if indices is not None:
            return [everything[index] for index in indices]
        return selected_documents(task, RunSpec.from_json(record.spec))
    except (DataError, IndexError):
        return ()


def _numeric_values(kept: DocumentValues) -> Iterator[tuple[int, float]]:
    for index, value in zip(kept.documents, kept.values, strict=True):
        if not isinstance(value, tuple):
            yield index, float(value)


def _reopened(store: Store, record: RunRecord, tasks: Sequence[Task], flag: str) -> dict[str, ReferenceValues]:
    """The tasks rescored from the stored answers, with the recorded scoring."""
    names = [task.card.name for task in tasks]
    sides = reopen_tasks(store, record, names, ignore)
    if any(reopened.needs_object for reopened in sides.values()):
        sides = reopen_tasks(store, record, names, ignore, tasks)
    return {name: _reference(reopened, flag) for name, reopened in sides.items()}


def _reference(reopened: ReopenedTask, flag: str) -> ReferenceValues:
    if reopened.result is None or reopened.built is None:
        raise UserError(
            Fault(f"{flag} {reopened.record.id}", f"cannot be read again: {reopened.reason}", "a run as it was")
        )
    values = {(score.metric, score.filter): values_of(reopened.result, score) for score in reopened.scores()}
    return ReferenceValues(reopened.record.id, reopened.name, contents(reopened.built.documents), values)


def contents(documents: Sequence[Document]) -> dict[int, str]:
    """Document → digest of its content."""
    return {document.id: document_digest(document) for document in documents}


def check_documents(reference: ReferenceValues, documents: Sequence[Document], flag: str, is_whole: bool) -> None:
    """Checks that the reference run evaluated the same documents.

    Args:
        reference: a task of a recorded run.
        documents: all documents of the same task today.
        flag: the option that names the run, for errors.
        is_whole: whether the reference must have evaluated all of them.
    """
    where, own = f"{flag} {reference.run}, task {reference.task}", contents(documents)
    shared = [index for index, content in reference.contents.items() if own.get(index) == content]
    if len(shared) < len(reference.contents):
        found = f"{len(reference.contents) - len(shared)} of its {len(reference.contents)} documents differ"
        raise DataError(Fault(where, found, "the same documents at the same indices"))
    if is_whole and len(shared) < len(own):
        found = f"evaluated {len(shared)} of {len(own)} documents"
        raise DataError(Fault(where, found, "a run on all documents", "Run it without --limit and --sample"))
