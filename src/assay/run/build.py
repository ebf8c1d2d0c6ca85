"""Loads documents, applies limit and choice of documents, and poses every task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from assay.core.annotations import shown
from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError
from assay.core.identity import digest_all
from assay.core.protocols import SkipsRows, Task
from assay.core.requests import Instance
from assay.core.specs import RunSpec
from assay.core.variance_axes import base_name
from assay.guard.time_limit import keep_limit_timer
from assay.run.plan import RequestKeys, find_keys
from assay.tasks.clusters import cluster_reader
from assay.tasks.corpora import TextTask


@dataclass(frozen=True, slots=True)
class BuiltTask:
    """A task with its documents as asked.

    Attributes:
        task: the task.
        available: documents in the split before any limit.
        documents: those asked about.
        instances: the same, posed.
        keys: the keys of their requests.
        fingerprint: digest of the documents asked about.
    """

    task: Task
    available: int
    documents: Sequence[Document]
    instances: Sequence[Instance]
    keys: RequestKeys
    fingerprint: str


def build_task(task: Task, spec: RunSpec, fingerprint: str) -> BuiltTask:
    """Loads and poses one task.

    Args:
        task: the task.
        spec: the run, for limit and samples.
        fingerprint: the model's digest, which the keys hold.
    """
    return build_documents(task, selected_documents(task, spec), spec, fingerprint)


def build_documents(task: Task, documents: Sequence[Document], spec: RunSpec, fingerprint: str) -> BuiltTask:
    """Poses some documents of a task; arguments as in `build_task`."""
    everything = task.documents()
    cluster_of = cluster_reader(task.card, everything, spec.cluster)
    built: Iterable[Instance] = _instances(task.card.name, map(task.build, documents))
    with keep_limit_timer():
        if cluster_of is not None:
            own = map(cluster_of, documents)
            built = [replace(instance, cluster=cluster) for instance, cluster in zip(built, own, strict=True)]
        keys = find_keys(built, fingerprint)
    return BuiltTask(
        task, len(everything), documents, keys.instances, keys, digest_all(document.fields for document in documents)
    )


def selected_documents(task: Task, spec: RunSpec) -> Sequence[Document]:
    """The documents that the run asks about. A limit takes the first ones, not a random sample."""
    own, documents = task.card.name, _checked_documents(task)
    # A run that stopped early has documents of its own for every level of an axis.
    name = own if spec.samples is not None and own in spec.samples else base_name(own)
    if spec.samples is not None and name in spec.samples:
        wanted = sorted(set(spec.samples[name]))
        outside = [index for index in wanted if not 0 <= index < len(documents)]
        if outside:
            raise DataError(
                Fault(f"--samples {name}", f"no documents {outside}", f"places from 0 to {len(documents) - 1}")
            )
        return [documents[index] for index in wanted]
    if spec.sparing.sample is not None:
        return _sampled(task, spec.sparing.sample, spec.sparing.seed)
    return documents if spec.limit is None else documents[: document_count(spec.limit, len(documents))]


def _checked_documents(task: Task) -> Sequence[Document]:
    """A task's documents; one of the user's own class may give anything."""
    found: object = task.documents()
    first = found[0] if isinstance(found, Sequence) and found else None
    if not isinstance(found, Sequence) or not isinstance(first, (Document, type(None))):
        given = f"documents() gives {shown(found)}" if first is None else f"documents()[0] is {shown(first)}"
        raise DataError(Fault(f"task {task.card.name}", given, "a list of Document objects", "See: help(assay.Task)"))
    return found


def _instances(task: str, built: Iterable[object]) -> Iterator[Instance]:
    for index, instance in enumerate(built):
        if not isinstance(instance, Instance):
            found = f"pose() gives {shown(instance)} for document {index}"
            raise DataError(Fault(f"task {task}", found, "an Instance", "See: help(assay.Task)"))
        yield instance


def split_indices(task: Task) -> Sequence[int]:
    """The place in the split of every document: prompts may pass over different rows, which shifts all that follow."""
    left_out = _left_out(task)
    return [index for index in range(len(task.documents()) + len(left_out)) if index not in left_out]


def _left_out(task: Task) -> frozenset[int]:
    return frozenset(index for index, _ in task.skipped_rows()) if isinstance(task, SkipsRows) else frozenset()


def left_out_count(task: Task) -> int:
    """Rows of the split that are not among the task's documents: the prompt cannot render them, or they are empty."""
    return task.empty if isinstance(task, TextTask) else len(_left_out(task))


def _sampled(task: Task, size: float, seed: int) -> list[Document]:
    """A random sample of the split without what the prompt cannot put, so that all prompts ask about the same rows."""
    from assay.stats.sampling import nested_sample  # most runs have no use for it

    indices = split_indices(task)
    total = len(indices) + len(_left_out(task))
    drawn = set(nested_sample(document_count(size, total), total, seed))
    found = [document for document, index in zip(task.documents(), indices, strict=True) if index in drawn]
    if drawn and not found:
        message = f"the prompt of the task {task.card.name} can put none of the {len(drawn)} documents drawn"
        raise UserError(Fault(f"--sample {size:g}", message, "a larger sample, or another --sample_seed"))
    return found


def document_count(size: float, total: int) -> int:
    """How many documents a count, or a share below 1, means."""
    return min(math.ceil(total * size) if size < 1 else int(size), total)
