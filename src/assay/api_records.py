"""The public functions on recorded runs: load, rescore, compare, explain, audit, plot. The command line calls the same.

import assay
result = assay.rescore("last", metrics="acc_norm")
print(assay.compare("last", "last~1").verdict)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.arguments import parse_arguments
from assay.core.call_checks import checked
from assay.core.errors import ArgumentError, Fault, no_such_result
from assay.core.plural import plural
from assay.core.protocols import Model
from assay.core.results import RunResult
from assay.options.specification import (
    Tasks,
    names_and_objects,
    split_tasks,
    task_objects,
)
from assay.report.result_files import check_output_path, write_results
from assay.run.events import Listener, ignore
from assay.store.store import StoreLocation, open_store, run_id, store_of_runs
from assay.studies.analyses import loading_features, rescoring_features
from assay.tasks.cards import cards
from assay.tasks.catalog import open_catalog
from assay.tasks.lm_eval.variants.scoring_overrides import scoring_changes

if TYPE_CHECKING:
    from assay.studies.audit.extraction_audit import TaskAudit
    from assay.studies.compare.compare_values import RunComparison
    from assay.studies.explain.explain_values import Explanation
    from assay.studies.references.protocol import ReferenceReport

# What names a run where a task could be named, too.
RUN_NAME = re.compile(r"last(~\d+)?|\d{4,8}(-[\w-]*)?")


@checked()
def load_run(
    run: str | RunResult, *, tasks: Tasks = (), store: StoreLocation = None, listener: Listener = ignore
) -> RunResult:
    """Loads a recorded run with its documents and answers. No model is called, and nothing is recorded.

    The requests are rebuilt from the tasks and verified by hash, and the stored answers are scored as in the run.

    - A finished run has the scores that it recorded; if they differ today (another version of Assay or of a
      metric), a notice says so.
    - A run that was interrupted, or has failed requests, has the documents answered so far. Documents without all
      their answers count as failed and are left out of every score; a notice gives their number.
    - A run whose tasks or data have changed since raises a `DataError` that names the change: its answers can no
      longer be matched with documents. Its recorded scores remain available: `assay ls runs`.

    Args:
        run: the run's id, the start of it, `last`, `last~1`, …; or the result of `evaluate`.
        tasks: the task objects of the run, if it had any.
        store: the store that holds the run.
        listener: function that is called with every event.
    """
    from assay.run.rescore import load

    objects = task_objects(tasks, "load_run")
    with open_store(store_of_runs(store, run), may_be_read_only=True) as opened:
        record = opened.runs.get(run_id(run))
        return load(opened, record, objects, listener, loading_features(record))


@checked()
def audit(run: str | RunResult, *, tasks: Tasks = (), store: StoreLocation = None) -> tuple[TaskAudit, ...]:
    """How answers were extracted from generated text, per task: which rule found them, and where rules disagree.

    Args:
        run: the result of `evaluate`, or a recorded run as in `load_run`.
        tasks: the task objects of a recorded run, if it had any.
        store: the store that holds a recorded run.
    """
    from assay.studies.audit.extraction_audit import audit_run

    result = load_run(run, tasks=tasks, store=store) if isinstance(run, str) else run
    return audit_run(result.tasks)


@checked()
def plot(
    run: str | RunResult,
    kind: str,
    path: str | Path | None = None,
    *,
    tasks: Tasks = (),
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> Path:
    """Draws a figure of a recorded run to a file and returns its path. No model is loaded, and nothing is recorded.

    Args:
        run: the run's id as in `load_run`, or the result of `evaluate`.
        kind: `reliability` (confidence against accuracy), `prompts` (scores of all prompts of a task), `axes` (scores
            over seeds, orders, draws and prompts, and the sources of variance), `lengths` or `positions` (bias towards
            long choices, or towards positions).
        path: file that ends in .svg or .png; `RUN_KIND.svg` if None.
        tasks: the task objects of the run, if it had any.
        store: the store that holds the run.
        listener: function that is called with every event.
    """
    from assay.studies.figures import draw_recorded

    with open_store(store_of_runs(store, run), may_be_read_only=True) as opened:
        return draw_recorded(opened, run_id(run), kind, path, listener, task_objects(tasks, "plot"))


@checked()
def rescore(
    run: str | RunResult,
    *,
    metrics: str | Sequence[str] | None = None,
    scoring: str | Path | Mapping[str, Any] | None = None,
    complete: bool = False,
    tasks: Tasks = (),
    model: Model | None = None,
    model_args: str | Mapping[str, Any] | None = None,
    bootstrap_iters: int | None = None,
    store: StoreLocation = None,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    listener: Listener = ignore,
) -> RunResult:
    """Scores the answers of a recorded run with other metrics, as a new run that names its parent.

    No model is loaded unless `complete` is set and answers are missing.

    Args:
        run: as in `load_run`.
        metrics: metrics to report, as in `evaluate`; a plus before the first keeps the run's own.
        scoring: YAML file with `metric_list` and `filter_list`, or the same as a mapping.
        complete: whether to request missing answers from the run's model; otherwise they are an error.
        tasks: the task objects of the run, if it had any.
        model: the model object of the run, if it had one and `complete` is set.
        model_args: model settings in place of recorded ones; secrets are not recorded.
        bootstrap_iters: resamples for lm-eval's standard errors; None for as many as the run had.
        store: the store that holds the run.
        output_path: folder for result files; None for no files.
        log_samples: whether to also write every document with its answers.
        listener: as in `evaluate`.
    """
    from assay.run import rescore as rescoring

    changes = scoring_changes(metrics, scoring)
    arguments = parse_arguments(model_args, "--model_args")
    wanted = rescoring.RescoreOptions(
        scoring=changes,
        completes=complete,
        model_args=arguments,
        bootstrap_iters=bootstrap_iters,
        tasks=task_objects(tasks, "rescore"),
        model=model,
    )
    if output_path is not None:
        check_output_path(output_path)
    with open_store(store_of_runs(store, run), may_be_read_only=not complete) as opened:
        result = rescoring.rescore(opened, run_id(run), wanted, listener, rescoring_features())
    if output_path is not None:
        write_results(result, output_path, log_samples)
    return result


@checked()
def explain(
    first: str | RunResult,
    second: str | RunResult,
    *,
    tasks: Tasks | None = None,
    metrics: Sequence[str] | None = None,
    tokens: bool = False,
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> Explanation:
    """Explains why the scores of two recorded runs differ, task by task, with evidence.

    Args:
        first: as in `load_run`.
        second: the other run.
        tasks: a task of each run, or one for both: names, or the task objects of the runs; every task that both have
            if None.
        metrics: a metric of each run, or one for both; the first that each reports if None.
        tokens: whether to also load the models' tokenizers and compare tokens.
        store: the store that holds both runs.
        listener: as in `evaluate`.
    """
    from assay.studies.explain.explain_runs import explain as explain_runs

    wanted = [] if tasks is None else split_tasks(tasks)
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    named = None if tasks is None else _two(names, "task")
    compared = None if metrics is None else _two(metrics, "metric")
    with open_store(store_of_runs(store, first, second), may_be_read_only=True) as opened:
        return explain_runs(
            opened,
            (run_id(first), run_id(second)),
            listener,
            tasks=named,
            metrics=compared,
            shows_tokens=tokens,
            given=[item for item in wanted if not isinstance(item, str)],
        )


@checked()
def explain_reference(
    of: str | RunResult,
    reference: str = "",
    *,
    tasks: Sequence[str] | None = None,
    include_path: Sequence[str] = (),
    store: StoreLocation = None,
) -> ReferenceReport:
    """Compares a task, or a recorded run of it, with published numbers: shots, split, metric, prompt, precision.

    Args:
        of: name or file of a task or group; or a run, as in `load_run`.
        reference: a model or a source of the task's published numbers, or a part of the source; empty to list all.
        tasks: names of the run's tasks; all if None.
        include_path: folders with more task files.
        store: the store that holds the run.
    """
    from assay.studies.references import protocol

    name = of if isinstance(of, str) else of.run_id
    if isinstance(of, str) and not RUN_NAME.fullmatch(of):
        if tasks is not None:
            raise ArgumentError(Fault("tasks", f'"{of}" is a task', "no further task, or a run"))
        task, _, wording = of.partition("@")
        found = [protocol.protocol_of_task(facts, wording) for facts in cards([task], open_catalog(include_path))]
    else:
        with open_store(store_of_runs(store, of), may_be_read_only=True) as opened:
            found = protocol.protocols_of_run(opened.runs.get(run_id(of)))
        known = [item.task for item in found]
        for wanted in tasks or ():
            if wanted not in known:
                raise no_such_result(f"run {name}", "task", wanted, known)
        found = [item for item in found if tasks is None or item.task in tasks]
    return protocol.explain_references(name, found, reference)


def _two(names: Sequence[str], what: str) -> tuple[str, str]:
    """One name for each run; a single name is used for both."""
    if len(names) not in (1, 2):
        raise ArgumentError(Fault("explain()", plural(len(names), what), "one for each run, or one for both"))
    return names[0], names[-1]


@checked()
def compare(
    *runs: str | RunResult,
    tasks: Tasks = (),
    metrics: str | Sequence[str] = (),
    baseline: str | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    correction: str = "holm",
    test: str | None = None,
    detect: float | None = None,
    across: Sequence[str] = ("model",),
    force: bool = False,
    flips: int = 0,
    seed: int = 0,
    predictions: bool = False,
    store: StoreLocation = None,
    listener: Listener = ignore,
) -> RunComparison:
    """Compares recorded runs, paired document by document: differences, tests, effect sizes, a verdict for each pair.

    Args:
        runs: two or more, as in `load_run`; `RUN@TASK` for one task of a run.
        tasks: tasks to compare (`demo_*` is a pattern); all that the runs share when empty. Task objects of the runs
            are needed if documents are read again: for a sampled run against a full one, `flips`, `predictions`.
        metrics: names, or `name,filter`; the first that a task reports when empty; `all` for every one.
        baseline: the run that all others are compared with; None for every pair.
        margin: equivalence margin, the largest difference that does not matter: 0.02 is 2 points of an accuracy.
        alpha: significance level.
        correction: correction for multiple tests: `holm` or `bh`.
        test: `exact`, `midp`, `permutation` or `bootstrap`; None for the one that fits the values.
        detect: a difference to report the required number of documents for, beside that of the observed one.
        across: what may differ between runs: `model`, `shots`, `style`, `prompts`, `scoring`, `version`.
        force: whether to compare runs that are not comparable.
        flips: documents to list, better and worse each; -1 for all.
        seed: seed of resampling.
        predictions: whether to report how often the runs predict the same choices, which reads their documents.
        store: the store that holds the runs.
        listener: as in `evaluate`.
    """
    from assay.studies.compare.compare_runs import compare as compare_runs
    from assay.studies.paired.paired_values import CompareOptions

    names, objects = names_and_objects(tasks)
    options = CompareOptions(
        tasks=(*names, *(item.card.name for item in objects)),
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        baseline=baseline,
        margin=margin,
        alpha=alpha,
        correction=correction,
        test=test,
        detect=detect,
        across=tuple(across),
        force=force,
        flips=flips,
        seed=seed,
        predictions=predictions,
    )
    with open_store(store_of_runs(store, *runs), may_be_read_only=True) as opened:
        return compare_runs(opened, [run_id(run) for run in runs], options, listener, objects)
