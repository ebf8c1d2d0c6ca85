"""The contract of a benchmark: what must hold for a task whatever the model, checked without one.

Every document is built, its prompts are read as text, and models that know the right answers are evaluated in the
ordinary way: right answers must score the best value, wrong ones less, random ones the chance that the card states. The
same for every style and every kind of head that the task's format allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.core.errors import AssayError, UserError
from assay.core.formats import LabelledText, MultipleChoice, Question, SpanQuestion, as_multiple_choice
from assay.core.protocols import FewShotExample, HasFormat, ProvidesFewShotExamples, Task
from assay.core.requests import HEAD_KINDS
from assay.core.specs import RunSpec
from assay.options.specification import Tasks, make_spec, split_tasks, with_settings
from assay.run.build import has_invalid_gold, selected_documents
from assay.run.resolve import known_names, resolve_tasks, with_metrics
from assay.tasks.catalog import Catalog, open_catalog
from assay.tasks.head_requests import as_head_task
from assay.tasks.styles import STYLES, has_labels_for
from assay.testing.answer_checks import AskedTask, check_answers
from assay.testing.benchmark_values import CheckedTask, Finding, FindingList
from assay.testing.prompt_checks import AskedDocument, check_prompts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.options.table import Settings

_CHOICE_STYLES = ("letters", "cloze", "hybrid", "generate", "t5", "metaicl")
# Documents whose answers are checked together; more would take more memory.
_AT_ONCE = 4000

Progress = Callable[[str], None]


@with_settings
def check_benchmark(
    tasks: Tasks, *, variants: bool = True, allowed: dict[str, str] | None = None, **settings: Unpack[Settings]
) -> list[Finding]:
    """Checks the contract of tasks and returns what violates it; empty if nothing does.

    Findings that the task's card allows, and defects of few documents, are included: `finding.is_fault` tells.

    Args:
        tasks: names, groups, paths of task files or task objects, as in `assay.evaluate`.
        variants: whether to check also every style and every kind of head that a task's format allows.
        allowed: check → reason, beside those of the tasks' cards.
        **settings: settings of a run that change tasks or select documents: `limit`, `num_fewshot`, `include_path`, ….
    """
    checked = check_benchmarks(tasks, variants=variants, allowed=allowed, **settings)
    return [finding for task in checked for finding in task.findings]


@with_settings
def check_benchmarks(
    tasks: Tasks,
    *,
    variants: bool = True,
    allowed: dict[str, str] | None = None,
    progress: Progress | None = None,
    **settings: Unpack[Settings],
) -> list[CheckedTask]:
    """The same as `check_benchmark`, as a report per task, style and head.

    Args:
        tasks: as in `check_benchmark`.
        variants: as in `check_benchmark`.
        allowed: as in `check_benchmark`.
        progress: called with the name of every task before it is read.
        **settings: as in `check_benchmark`.
    """
    contract = _Contract(settings, allowed or {}, variants, progress or (lambda name: None))
    wanted = split_tasks(tasks)
    checked: dict[str, CheckedTask] = {}
    waiting: list[AskedTask] = []
    for task in contract.resolved(wanted, checked):
        for asked in contract.forms(task, wanted, checked):
            waiting.append(asked)
            checked[asked.name] = contract.outcome(asked)  # keeps the order of the report
        if sum(len(asked.documents) for asked in waiting) >= _AT_ONCE:
            contract.finish(waiting, checked)
    contract.finish(waiting, checked)
    return list(checked.values())


@dataclass(frozen=True)
class _Contract:
    """The checks of one call."""

    settings: Settings
    allowed: dict[str, str]
    variants: bool
    progress: Progress

    @cached_property
    def spec(self) -> RunSpec:
        return make_spec("none", (), **self.settings)

    @cached_property
    def catalog(self) -> Catalog:
        """The known names; read once for all tasks and styles."""
        return open_catalog(self.spec.include_path)

    def resolved(self, wanted: Sequence[str | Task], checked: dict[str, CheckedTask]) -> Iterator[Task]:
        """The tasks behind the names; one that cannot be resolved is a finding."""
        try:
            together = self.select(*wanted)
        except UserError:  # found again below, one by one
            together = ()
        if together:
            yield from together
            return
        for item in wanted:
            try:
                yield from self.select(item)
            except UserError as error:
                name = item if isinstance(item, str) else item.card.name
                checked[name] = CheckedTask(name, 0, frozenset(), (Finding(name, "builds", str(error)),))

    def select(self, *wanted: str | Task) -> Sequence[Task]:
        spec = replace(self.spec, tasks=tuple(item for item in wanted if isinstance(item, str)))
        return with_metrics(resolve_tasks(spec, wanted, self.catalog), spec.options).tasks

    def spec_for(self, task: Task) -> RunSpec:
        """The specification that selects documents: the first ones instead of a sample that would cut groups."""
        size = self.spec.subsampling.sample
        metrics = task.card.config.get("metric_list") or ()
        if size is None or not any({"group", "group_size"} & set(metric) for metric in metrics):
            return self.spec
        return replace(self.spec, limit=size, subsampling=replace(self.spec.subsampling, sample=None))

    def forms(self, task: Task, wanted: Sequence[str | Task], checked: dict[str, CheckedTask]) -> Iterator[AskedTask]:
        """The task as it is, in every style, and for every kind of head that its format allows."""
        self.progress(task.card.name)
        own = self.asked(task, task.card.name)
        yield own
        question = own.documents[0].question if own.documents else None
        if not self.variants or question is None or "@" in task.card.name:
            return
        yield from self.styles(task, question, wanted, checked)
        for kind in HEAD_KINDS:
            head = as_head_task(task, [kind], known_names().metrics)
            if head is not None:
                yield self.asked(head, f"{task.card.name} ({kind} head)", kind)

    def styles(
        self, task: Task, question: Question, wanted: Sequence[str | Task], checked: dict[str, CheckedTask]
    ) -> Iterator[AskedTask]:
        name = self.written_name(task, wanted)
        if name is None:
            return
        states_format = bool(task.card.config.get("format"))
        for style in _styles_for(question):
            label = f"{task.card.name}@{style}"
            choices = as_multiple_choice(question)
            if choices is not None and not has_labels_for(choices, STYLES[style]):
                reason = f"the style has no labels for {len(choices.choices)} choices"
                checked[label] = CheckedTask(label, 0, frozenset(), (), reason)
                continue
            try:
                # A file may define several tasks.
                found = [item for item in self.select(f"{name}@{style}") if item.card.name == label]
                asked = self.asked(found[0], label) if found else None
            except UserError as error:
                asked = AskedTask(task, label, (), FindingList(label, 0, self.allowances(task)))
                asked.findings.add("builds", str(error))
            if asked is None:
                continue
            if not states_format and any(finding.check == "builds" for finding in asked.findings.found):
                reason = asked.findings.found[0].message
                checked[label] = CheckedTask(label, 0, frozenset(), (), f"the format is inferred: {reason}")
            else:
                yield asked

    def written_name(self, task: Task, wanted: Sequence[str | Task]) -> str | None:
        """The name by which a style of the task can be asked for; None for task objects."""
        if task.card.name in self.catalog.entries:
            return task.card.name
        return next((item for item in wanted if isinstance(item, str) and item.endswith((".yaml", ".yml"))), None)

    def allowances(self, task: Task) -> dict[str, str]:
        """Check → reason for which the card, or the call, allows its findings."""
        stated = task.card.facts.get("allow")
        return {**(stated if isinstance(stated, dict) else {}), **self.allowed}

    def asked(self, task: Task, name: str, head: str = "") -> AskedTask:
        """A task with all its documents built and its prompts checked."""
        findings = FindingList(name, 0, self.allowances(task))
        findings.done.add("builds")
        try:
            documents = selected_documents(task, self.spec_for(task))
        except AssayError as error:
            findings.add("builds", str(error))
            return AskedTask(task, name, (), findings, head)
        findings.total = len(documents)
        built, failed = [], []
        for document in documents:
            try:
                built.append(
                    AskedDocument(document, task.build(document), _question(task, document), _examples(task, document))
                )
            except Exception as error:  # templates and code of tasks may raise anything
                failed.append((document.id, error))
        if failed:
            said = f"{type(failed[0][1]).__name__}: {failed[0][1]}"
            findings.add_documents("builds", said, [document for document, _ in failed], strict=True)
        asked = AskedTask(task, name, tuple(built), findings, head)
        _check_labels(asked)
        check_prompts(asked.documents, task.card.config, findings)
        return asked

    def finish(self, waiting: list[AskedTask], checked: dict[str, CheckedTask]) -> None:
        """Checks the answers of the tasks that wait for it."""
        check_answers(waiting)
        for asked in waiting:
            checked[asked.name] = self.outcome(asked)
        waiting.clear()

    def outcome(self, asked: AskedTask) -> CheckedTask:
        found = asked.findings
        return CheckedTask(asked.name, len(asked.documents), frozenset(found.done), tuple(found.found))


def _styles_for(question: Question) -> Sequence[str]:
    if isinstance(question, SpanQuestion):
        return ("t5",)
    return _CHOICE_STYLES if isinstance(question, (LabelledText, MultipleChoice)) else ()


def _question(task: Task, document: Any) -> Question | None:
    return task.question(document) if isinstance(task, HasFormat) else None


def _examples(task: Task, document: Any) -> Sequence[FewShotExample]:
    return tuple(task.examples(document)) if isinstance(task, ProvidesFewShotExamples) else ()


def _check_labels(asked: AskedTask) -> None:
    """Right answers among the choices. A task without choices or classes has none to be outside of."""
    scored = asked.task.scoring
    with_choices = [item for item in asked.documents if item.instance.choices]
    if not with_choices or scored.process is not None:
        return
    asked.findings.done.add("labels")
    wrong = [item for item in with_choices if has_invalid_gold(item.instance)]
    if wrong:
        instance = wrong[0].instance
        message = f"the right answer {instance.target!r} is not among the {len(instance.choices)} choices"
        asked.findings.add_documents("labels", message, [item.document.id for item in wrong])
