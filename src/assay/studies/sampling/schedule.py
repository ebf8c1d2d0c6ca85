"""The schedule of a run: all documents, a random subsample, or batches until a stopping rule is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.core.results import TaskResult
from assay.core.specs import RunSpec
from assay.run.build import BuiltTask, sample_size
from assay.run.resolve import Setup
from assay.run.session import FullSchedule, Schedule, Session
from assay.store.run_records import RunRecord
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.studies.sampling.subsample_values import ReferenceValues


def make_schedule(session: Session, setup: Setup) -> Schedule:
    """The schedule that the specification of a run requests; loads its reference run."""
    options = session.spec.sparing
    if options.may_stop_early:
        from assay.studies.sampling.early_stopping import EarlyStopping  # most runs do not need it

        return EarlyStopping(session, setup)
    if options.reference is None:
        return rescoring_schedule(session, setup)
    from assay.studies.sampling.estimates import sample_references

    references = sample_references(session, options.reference, setup.tasks)
    return SubsampleSchedule(session, setup, references)


def rescoring_schedule(session: Session, setup: Setup) -> Schedule:
    """The schedule of a rescored run: its documents are known, and its stopping rule is not applied again."""
    options = session.spec.sparing
    if options.sample is None and not options.may_stop_early:
        return task_schedule(session, setup)
    return SubsampleSchedule(session, setup, {})


def task_schedule(session: Session, setup: Setup) -> Schedule:
    """The schedule of a run without options for subsampling: task files or groups may state a sample."""
    is_sampled = any(sample_size(task, session.spec) is not None for task in setup.tasks)
    return (TaskSampleSchedule if is_sampled else FullSchedule)(session, setup)


class SubsampleSchedule(FullSchedule):
    """A random part of the documents in one batch; adds estimates for all documents.

    Args:
        session: the run.
        setup: its tasks.
        references: task → its values in the reference run.
    """

    def __init__(self, session: Session, setup: Setup, references: Mapping[str, ReferenceValues]) -> None:
        super().__init__(session, setup)
        self._options, self._references = session.spec.sparing, references

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        from assay.studies.sampling.estimates import with_subsample_estimates

        return with_subsample_estimates(built, results, self._options, self._references)


class TaskSampleSchedule(FullSchedule):
    """Random samples of the tasks whose files or groups state one, all documents of the others."""

    def __init__(self, session: Session, setup: Setup) -> None:
        super().__init__(session, setup)
        self._spec = session.spec

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        from assay.studies.sampling.estimates import with_subsample_estimates

        drawn = [index for index, item in enumerate(built) if sample_size(item.task, self._spec) is not None]
        own = [built[index] for index in drawn], [results[index] for index in drawn]
        found = dict(zip(drawn, with_subsample_estimates(*own, self._spec.sparing, {}), strict=True))
        return tuple(found.get(index, result) for index, result in enumerate(results))


class RecordedSchedule(SubsampleSchedule):
    """The schedule of a recorded run that is loaded: its early stopping and its reference run are as recorded.

    Args:
        record: the run.
        session: the session that loads it.
        setup: its tasks.
    """

    def __init__(self, record: RunRecord, session: Session, setup: Setup) -> None:
        super().__init__(session, setup, {})
        self._record = record

    def complete(self, built: Sequence[BuiltTask], results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        return tuple(map(self._with_recorded, super().complete(built, results)))

    def _with_recorded(self, result: TaskResult) -> TaskResult:
        from assay.studies.sampling.estimates import with_subsample
        from assay.studies.sampling.subsample_values import SubsampleResult

        recorded = self._record.numbers(result.name).get("spared")
        if recorded is None or result.subsample is None:  # the run is unfinished, or cannot be scored today
            return result
        then = SubsampleResult.from_json(recorded)
        own = replace(result.subsample, differences=then.differences, reference=then.reference, stop=then.stop)
        return with_subsample(result, own)


def with_run_ids(spec: RunSpec, store: Store) -> RunSpec:
    """The specification with the ids of the runs that it refers to: `last` means another run tomorrow."""
    options = spec.sparing
    if options.until_decided is None and options.reference is None:
        return spec

    def run_id(name: str | None) -> str | None:
        return None if name is None else store.runs.get(name).id

    whole = replace(options, until_decided=run_id(options.until_decided), reference=run_id(options.reference))
    return replace(spec, sparing=whole)
