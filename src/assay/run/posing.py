"""Loads documents, applies limit and choice of documents, and poses every task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.documents import Document
from assay.core.errors import DataError, Fault
from assay.core.identity import digest_all
from assay.core.protocols import Task
from assay.core.requests import Instance
from assay.core.specs import RunSpec
from assay.core.variance_axes import base_name
from assay.plan.planning import Keys, find_keys


@dataclass(frozen=True, slots=True)
class PosedTask:
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
    keys: Keys
    fingerprint: str


def pose_task(task: Task, spec: RunSpec, fingerprint: str) -> PosedTask:
    """Loads and poses one task.

    Args:
        task: the task.
        spec: the run, for limit and samples.
        fingerprint: the model's digest, which the keys hold.
    """
    everything = task.documents()
    documents = chosen_documents(task.card.name, everything, spec)
    keys = find_keys(map(task.pose, documents), fingerprint)
    return PosedTask(
        task, len(everything), documents, keys.instances, keys, digest_all(document.fields for document in documents)
    )


def chosen_documents(name: str, documents: Sequence[Document], spec: RunSpec) -> Sequence[Document]:
    """The documents that the run asks about. A limit takes the first ones, which is no random sample."""
    name = base_name(name)
    if spec.samples is not None and name in spec.samples:
        wanted = sorted(set(spec.samples[name]))
        outside = [place for place in wanted if not 0 <= place < len(documents)]
        if outside:
            raise DataError(
                Fault(f"--samples {name}", f"no documents {outside}", f"places from 0 to {len(documents) - 1}")
            )
        return [documents[place] for place in wanted]
    if spec.limit is None:
        return documents
    count = math.ceil(len(documents) * spec.limit) if spec.limit < 1 else int(spec.limit)
    return documents[:count]
