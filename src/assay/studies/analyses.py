"""Analyses that every run adds to its scores: notices, variance, reliability, published numbers, …; its schedule.

`run/` does not depend on these. Callers that start a run create its session here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from assay.core.metric_names import SELECTIVE, family_of
from assay.core.packages import RequiredPackage
from assay.core.protocols import DataRead, ReadsDataset, ReportsNotices
from assay.core.results import Contribution
from assay.core.specs import RunSpec, SubsamplingOptions, TaskOptions, VariationAxes
from assay.run.events import Listener
from assay.run.open_model import trained_notices
from assay.run.resolve import Setup, TaskSelector
from assay.run.session import Analysis, FullSchedule, RunFeatures, RunOutcome, Schedule, Session
from assay.store.run_records import RunRecord
from assay.store.store import Store
from assay.studies.notices.task_notices import group_notices, part_notices, task_notices


def new_session(
    spec: RunSpec,
    store: Store,
    listener: Listener,
    needs: Sequence[RequiredPackage] = (),
    select: TaskSelector | None = None,
) -> Session:
    """The session of a run with all features.

    Args:
        spec: the specification of the run.
        store: open store.
        listener: receives events.
        needs: packages that are needed after the run, such as that of a figure.
        select: finds the tasks, for runs that share them.
    """
    features = RunFeatures(_schedule, ANALYSES)
    if spec.subsampling != SubsamplingOptions():
        from assay.studies.sampling.schedule import make_schedule, with_run_ids  # most runs evaluate all documents

        spec, features = with_run_ids(spec, store), RunFeatures(make_schedule, ANALYSES)
    return Session(spec, store, listener, needs=needs, features=features, select=select)


def rescoring_features() -> RunFeatures:
    """Schedule and analyses of a recorded run that is rescored differently."""
    from assay.studies.sampling.schedule import rescoring_schedule

    return RunFeatures(rescoring_schedule, ANALYSES)


def loading_features(record: RunRecord) -> RunFeatures:
    """Schedule and analyses of a recorded run that is scored as recorded."""
    if RunSpec.from_json(record.spec).subsampling == SubsamplingOptions():
        return RunFeatures(_schedule, ANALYSES)
    from assay.studies.sampling.schedule import RecordedSchedule

    return RunFeatures(partial(RecordedSchedule, record), ANALYSES)


def _schedule(session: Session, setup: Setup) -> Schedule:
    """The schedule of a run that evaluates all documents, except of tasks whose files state a sample."""
    if all(task.card.config.get("sample") is None for task in setup.tasks):
        return FullSchedule(session, setup)
    from assay.studies.sampling.schedule import task_schedule  # most tasks state none

    return task_schedule(session, setup)


def _model(run: RunOutcome) -> Contribution:
    """The notices of a model; there are none if it was not loaded."""
    model = run.setup.model
    return Contribution(notices=tuple(model.notices()) if run.requested and isinstance(model, ReportsNotices) else ())


def _results(run: RunOutcome) -> Contribution:
    is_trained = run.setup.model.fingerprint.parent is not None
    return Contribution(notices=tuple(task_notices(run.tasks, is_trained)))


def _groups(run: RunOutcome) -> Contribution:
    return Contribution(notices=tuple(group_notices(run.groups, run.tasks)))


def _training(run: RunOutcome) -> Contribution:
    return Contribution(notices=tuple(trained_notices(run.spec, run.store, [task.name for task in run.tasks])))


def _parts(run: RunOutcome) -> Contribution:
    return Contribution(notices=tuple(part_notices(run.tasks, run.spec)))


def _partial_data(run: RunOutcome) -> Contribution:
    if not any(_is_partial(task.data_read()) for task in run.setup.tasks if isinstance(task, ReadsDataset)):
        return Contribution()
    from assay.studies.notices.partial_data import partial_notices  # most runs read whole splits

    return Contribution(notices=tuple(partial_notices(run.setup.tasks)))


def _is_partial(read: DataRead) -> bool:
    """Whether a split that was read is smaller than the official one."""
    return any(rows < read.official.get(split, 0) for split, rows in read.sizes.items())


def _ignored(run: RunOutcome) -> Contribution:
    if run.spec.options == TaskOptions():  # there is no option to ignore
        return Contribution()
    from assay.studies.notices.ignored_options import ignored_notices

    return Contribution(notices=tuple(ignored_notices(run.setup.tasks, run.tasks, run.spec)))


def _best_variants(run: RunOutcome) -> Contribution:
    if not run.setup.combined:
        return Contribution()
    from assay.studies.notices.best_variant import best_of  # most runs do not need it

    return Contribution(notices=tuple(best_of(run.setup.combined, run.tasks, run.groups)))


def _tasks(run: RunOutcome) -> Contribution:
    """The notices of tasks."""
    return Contribution(
        notices=tuple(line for task in run.setup.tasks if isinstance(task, ReportsNotices) for line in task.notices())
    )


def _prompts(run: RunOutcome) -> Contribution:
    if not _has_prompts(run):
        return Contribution()
    from assay.studies.variance.prompts import prompt_axes
    from assay.studies.variance.variance_report import prompt_lines

    axes = prompt_axes(run.setup.tasks, run.tasks)
    return Contribution("prompts", axes, lines=tuple(prompt_lines(axes)))


def _draws(run: RunOutcome) -> Contribution:
    if all(task.denominators.draws is None for task in run.tasks):
        return Contribution()
    from assay.studies.variance.variance_report import draw_lines

    return Contribution(lines=tuple(draw_lines(run.tasks)))


def _variance(run: RunOutcome) -> Contribution:
    if run.spec.options.axes == VariationAxes() and not _has_prompts(run):
        return Contribution()
    from assay.studies.variance.decomposition import task_variances
    from assay.studies.variance.variance_report import variance_lines

    found = task_variances(run.setup.tasks, run.setup.scorers, run.tasks)
    return Contribution("variance", found, lines=tuple(variance_lines(found)))


def _has_prompts(run: RunOutcome) -> bool:
    return any(task.card.config.get("prompt") for task in run.tasks)


def _subsampling(run: RunOutcome) -> Contribution:
    if all(task.subsample is None for task in run.tasks):
        return Contribution()
    from assay.studies.sampling.subsample_report import subsample_lines

    return Contribution(lines=tuple(subsample_lines(run.tasks)))


def _reliability(run: RunOutcome) -> Contribution:
    """The reliability of tasks that report a confidence metric."""
    own = [task for task in run.tasks if any(family_of(item.metric) in _CONFIDENCE_METRICS for item in task.metrics)]
    if not own:
        return Contribution()
    from assay.studies.calibration.reliability import task_reliability

    found = {task.name: task_reliability(task.answered) for task in own}
    return Contribution("reliability", tasks={name: one for name, one in found.items() if one is not None})


def _published(run: RunOutcome) -> Contribution:
    """Published numbers of the run's model, if a card has any."""
    cards = (*(task.card.facts for task in run.tasks), *(group.spec.facts for group in run.groups))
    listed = [str(entry.get("model", "")) for facts in cards for entry in facts.get("references") or ()]
    if not listed:
        return Contribution()
    from assay.studies.references.model_names import matching_name, model_names  # most tasks of one's own have none

    names = model_names(run.spec.model, run.spec.model_args, run.setup.model.fingerprint)
    if all(matching_name(model, names) is None for model in listed):
        return Contribution()
    from assay.studies.references.published import published_lines, published_scores

    found = published_scores(run.tasks, run.groups, names)
    return Contribution("published", found, lines=tuple(published_lines(found)))


# Metrics that a reliability table explains.
_CONFIDENCE_METRICS = frozenset({"ece", "ece_adaptive", "auroc", "aurc", SELECTIVE})
_NOTICES = (_model, _results, _groups, _training, _parts, _partial_data, _ignored, _best_variants, _tasks)
# In the order of the notices, of the lines below the table, and of the keys in the result file.
ANALYSES = (
    *(Analysis("the notices", analyse) for analyse in _NOTICES),
    Analysis("the lines of prompts", _prompts),
    Analysis("the counts of draws", _draws),
    Analysis("the sources of variance", _variance),
    Analysis("the estimates from a subsample", _subsampling),
    Analysis("the reliability", _reliability),
    Analysis("the published numbers", _published),
)
