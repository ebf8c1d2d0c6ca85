"""Selects a task's documents, builds their requests, and checks that their right answers are among the choices."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.annotations import shown
from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError
from assay.core.identity import digest_all
from assay.core.protocols import LocatesAnswers, SkipsRows, Task
from assay.core.requests import Instance
from assay.core.scores import BYPASS
from assay.core.specs import LM_EVAL, RunSpec, Scoring
from assay.guard.time_limit import keep_limit_timer
from assay.run.plan import RequestKeys, find_keys
from assay.tasks.clusters import cluster_reader
from assay.tasks.lm_eval.build.instances import INVALID_GOLD
from assay.tasks.lm_eval.file.value_checks import template_choices
from assay.tasks.text_tasks import TextTask

# Scorers that look for the index of the right choice, and the one that reads a choice's label from generated text.
_SHAPES = ("multiple_choice", "rotated_choice", "label_scores", "generate_until")
_WORKAROUND = "assay run --predict_only records the answers alone; --like lm-eval scores 0, as lm-eval does"
_LONGEST = 200
# A choice that is one column's name in braces.
_COLUMN = re.compile(r"\s*\{\{\s*([\w.]+)\s*\}\}\s*")


@dataclass(frozen=True, slots=True)
class BuiltTask:
    """A task with the requests of its documents.

    Attributes:
        task: the task.
        available: documents in the split before any limit.
        documents: those that are evaluated.
        instances: the same, built.
        keys: the keys of their requests.
        fingerprint: digest of these documents.
    """

    task: Task
    available: int
    documents: Sequence[Document]
    instances: Sequence[Instance]
    keys: RequestKeys
    fingerprint: str


def build_task(task: Task, spec: RunSpec, fingerprint: str) -> BuiltTask:
    """Selects the documents of a task and builds them.

    Args:
        task: the task.
        spec: the run, for limit and samples.
        fingerprint: the model's digest, which is part of the keys.
    """
    return build_documents(task, selected_documents(task, spec), spec, fingerprint)


def build_documents(task: Task, documents: Sequence[Document], spec: RunSpec, fingerprint: str) -> BuiltTask:
    """Builds some documents of a task; arguments as in `build_task`."""
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
    """The documents that the run evaluates. A limit takes the first ones, not a random sample."""
    card, documents = task.card, _checked_documents(task)
    # A run that stopped early evaluated other documents at every level of an axis.
    name = card.name if spec.samples is not None and card.name in spec.samples else card.base
    if spec.samples is not None and name in spec.samples:
        wanted = sorted(set(spec.samples[name]))
        outside = [index for index in wanted if not 0 <= index < len(documents)]
        if outside:
            raise DataError(
                Fault(f"--samples {name}", f"no documents {outside}", f"places from 0 to {len(documents) - 1}")
            )
        return [documents[index] for index in wanted]
    size = sample_size(task, spec)
    if size is not None:
        return _sampled(task, size, spec.subsampling.seed)
    return documents if spec.limit is None else documents[: document_count(spec.limit, len(documents))]


def sample_size(task: Task, spec: RunSpec) -> float | Mapping[str, int] | None:
    """Size of the random sample of a task: the run's, else that of its file or group; None for no sample.

    A run that limits or chooses documents overrides the file. A file may state another tool's sample, as a mapping.
    """
    if spec.subsampling.sample is not None or spec.limit is not None:
        return spec.subsampling.sample
    names = spec.samples or ()
    return None if {task.card.name, task.card.base}.intersection(names) else task.card.config.get("sample")


def _checked_documents(task: Task) -> Sequence[Document]:
    """A task's documents; a class of the user's own may return anything."""
    found: object = task.documents()
    first = found[0] if isinstance(found, Sequence) and found else None
    if not isinstance(found, Sequence) or not isinstance(first, (Document, type(None))):
        given = f"documents() gives {shown(found)}" if first is None else f"documents()[0] is {shown(first)}"
        raise DataError(Fault(f"task {task.card.name}", given, "a list of Document objects", "See: help(assay.Task)"))
    return found


def _instances(task: str, built: Iterable[object]) -> Iterator[Instance]:
    for index, instance in enumerate(built):
        if not isinstance(instance, Instance):
            found = f"build() gives {shown(instance)} for document {index}"
            raise DataError(Fault(f"task {task}", found, "an Instance", "See: help(assay.Task)"))
        yield instance


def split_indices(task: Task) -> Sequence[int]:
    """The index of every document in the split: prompts may skip different rows, which shifts all that follow."""
    left_out = _left_out(task)
    return [index for index in range(len(task.documents()) + len(left_out)) if index not in left_out]


def _left_out(task: Task) -> frozenset[int]:
    return frozenset(index for index, _ in task.skipped_rows()) if isinstance(task, SkipsRows) else frozenset()


def left_out_count(task: Task) -> int:
    """Rows of the split that are not among the task's documents: the prompt cannot render them, or they are empty."""
    return task.empty if isinstance(task, TextTask) else len(_left_out(task))


def _sampled(task: Task, size: float | Mapping[str, int], seed: int) -> list[Document]:
    """A random sample of the split without rows that the prompt cannot render, so that all prompts share the sample."""
    from assay.stats.sampling import nested_sample  # most runs do not need it

    indices = split_indices(task)
    total = len(indices) + len(_left_out(task))
    if isinstance(size, Mapping):
        count = document_count(size["documents"], total)
        drawn = set(random.Random(size["python_seed"]).sample(range(total), count))
    else:
        drawn = set(nested_sample(document_count(size, total), total, seed))
    found = [document for document, index in zip(task.documents(), indices, strict=True) if index in drawn]
    if drawn and not found:
        message = f"the prompt of the task {task.card.name} can render none of the {len(drawn)} documents drawn"
        raise UserError(Fault("--sample", message, "a larger sample, or another --sample_seed"))
    return found


def document_count(size: float, total: int) -> int:
    """The number of documents for a count, or for a share below 1."""
    return min(math.ceil(total * size) if size < 1 else int(size), total)


# Right answers. A task in which no document can be right is an error before the first request; `--like lm-eval` scores
# it 0, as lm-eval does, and `--predict_only` scores nothing.


def has_invalid_gold(instance: Instance) -> bool:
    """Whether a multiple-choice question's right answer is not among its choices (in an unlabelled split, say)."""
    size = len(instance.choices)
    golds = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
    places = [gold for gold in golds if isinstance(gold, int)]
    if places or not golds:
        return not any(0 <= index < size for index in places)
    # The right label of a generated answer is a text; if there is none, the target is still an index.
    return type(instance.target) is int and not -size <= instance.target < size


def check_golds(built: Sequence[BuiltTask], spec: RunSpec) -> None:
    """Rejects tasks in which no document can be answered correctly, with the first example of each."""
    if spec.options.like == LM_EVAL:
        return
    strict = [item for item in built if _reads_golds(item.task.scoring) and not _is_like_lm_eval(item.task)]
    faults = [fault for item in strict for fault in _gold_faults(item)]
    if faults:
        raise DataError(*faults)


def _is_like_lm_eval(task: Task) -> bool:
    """Whether the run asks for this task as `TASK@lm-eval`."""
    return task.card.variant is not None and task.card.variant.profile == LM_EVAL


def _reads_golds(scoring: Scoring) -> bool:
    is_scored = any(metric.name != BYPASS for metric in scoring.metrics)
    return scoring.scorer in _SHAPES and scoring.process is None and is_scored


def _gold_faults(built: BuiltTask) -> Iterator[Fault]:
    task = built.task
    choices = task.written_choices() if isinstance(task, LocatesAnswers) else ()
    if isinstance(task, LocatesAnswers) and (found := template_choices(choices)):
        message = f"lists the choice {found[0]!r}, a template"
        yield Fault(
            task.where_choices(),
            f"{message} that is not filled in",
            "the choices as one template",
            _as_template(choices),
        )
    elif built.instances and _has_no_valid_target(built):
        where = f"task {task.card.name}"
        if isinstance(task, LocatesAnswers):
            where = f"{task.where_answer()}, {where}"
        message = "no document has a right answer among its choices, so every model scores 0"
        found_text = f"{message}: {_example(built)} and the choices {shown_value(list(built.instances[0].choices))}"
        expected = "the text of a choice, or its place counted from 0"
        yield Fault(where, found_text, expected, _advice(task, built.instances[0]))


def _example(built: BuiltTask) -> str:
    """The first document with its target; with its fields if a style or a format could not locate the right choice."""
    first, document = built.instances[0], built.documents[0]
    if first.target == INVALID_GOLD:
        return f"document {first.document_id} is {shown_value(dict(document.fields))}"
    return f"document {first.document_id} has the target {shown_value(first.target)}"


def _as_template(choices: Sequence[Any]) -> str:
    """Advice to write a list of templates and texts as one template."""
    names = [_COLUMN.fullmatch(choice) if isinstance(choice, str) else None for choice in choices]
    inner = [found[1] if found else repr(choice) for found, choice in zip(names, choices, strict=True)]
    example = "a, b" if any("{" in part for part in inner) else ", ".join(inner)
    message = f'A list is taken as it is. Write doc_to_choice: "{{{{[{example}]}}}}"'
    return f"{message}. --like lm-eval scores the braces, as lm-eval does"


def _has_no_valid_target(built: BuiltTask) -> bool:
    """Whether no document of the split can be right; a limit does not decide it."""
    if not all(instance.choices and has_invalid_gold(instance) for instance in built.instances):
        return False
    asked = {instance.document_id for instance in built.instances}
    others = (document for document in built.task.documents() if document.id not in asked)
    return all(has_invalid_gold(built.task.build(document)) for document in others)


def _advice(task: Any, first: Instance) -> str:
    """The likely cause, as far as the first document shows it."""
    target = first.target
    if has_own_template(task.card.config) and is_index(target) and str(target) in first.choices:
        name = "doc_to_target: COLUMN"
        return f"A template's digits are read as a place. For the text of a choice name the column alone ({name})"
    if target == INVALID_GOLD:
        return f"Is the split unlabelled, or are its labels other words than the choices? {_WORKAROUND}"
    is_unlabelled = target in (None, "", "-1") or (isinstance(target, (int, float)) and target < 0)
    if is_unlabelled:
        return f"Is the split unlabelled? Name another one. {_WORKAROUND}"
    return _WORKAROUND


def shown_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def has_own_template(config: Any) -> bool:
    """Whether targets are what the task's own template writes, so that digits become numbers."""
    written = config.get("doc_to_target")
    is_own = config.get("style") is None and config.get("prompt") is None
    return is_own and isinstance(written, str) and "{" in written


def is_index(target: Any) -> bool:
    return isinstance(target, int) and not isinstance(target, bool)
