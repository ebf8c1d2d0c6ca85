"""A training from the first look at its folder to the finished model: the story, one line per stage.

Takes a parent, its lessons and settings; gives a report. What a killed process left in the folder is taken up again.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.errors import missing_extra
from assay.core.fitting import ACCURACY, LORA, FitListener, FitReport, FitSettings, Lesson
from assay.models.checkpoints import precision
from assay.models.fitting.adapting import adapt, require_peft
from assay.models.fitting.courses import Course, Loaded, Parent, check_lessons, check_metric
from assay.models.fitting.faults import told
from assay.models.fitting.finishing import Shape, put_in_place, reload, restore, shape_of
from assay.models.fitting.record import alone, claim, make_record, write_record
from assay.models.fitting.settings import check_settings, count_steps, learning_rate
from assay.models.fitting.states import State, best_check, whole_states
from assay.models.fitting.training import Plan, apart, train
from assay.models.fitting.values import CLASSES, MAJORITY
from assay.models.network import choose_device, require_transformers

STATES = "checkpoints"
# Fewer validation documents may well have one answer by chance.
_FEW_DOCUMENTS = 10


def fit(
    parent: Parent,
    lessons: Sequence[Lesson],
    checks: Sequence[Lesson],
    settings: FitSettings,
    folder: Path,
    listener: FitListener,
) -> FitReport:
    """Trains a copy of the parent and puts it into the folder; see `Trainable.fit`."""
    check_settings(settings, bool(checks))
    check_lessons(lessons, checks, parent.able.learns)
    check_metric(settings.watched, checks)
    _require(settings, parent)
    rate = learning_rate(settings, parent.able.family)
    with told(folder, settings), alone(folder):
        record = make_record((parent.digest, parent.checkpoint.name), lessons, checks, settings, rate)
        known = claim(folder, record)
        if known is not None:
            return known
        with apart(settings.seed):
            course = parent.course(parent, lessons, checks, settings)
            plan = _plan(course, settings, rate, bool(checks), folder)
            report = _make(parent, course, plan, folder, listener)
            report = replace(report, notices=(*report.notices, *_majority(report, len(checks))))
        write_record(folder, record, report)
        shutil.rmtree(plan.folder)
        return report


def _plan(course: Course, settings: FitSettings, rate: float, has_checks: bool, folder: Path) -> Plan:
    return Plan(settings, rate, count_steps(len(course.rows), settings), has_checks, folder / STATES)


def _make(parent: Parent, course: Course, plan: Plan, folder: Path, listener: FitListener) -> FitReport:
    """Trains what is left to train and puts the weights that are kept in place."""
    device, notice = choose_device(parent.device)
    load = partial(_load, course, plan.settings.seed)
    loaded, states = load(), whole_states(plan.folder)
    notices = [notice, *course.notices, *loaded.notices, _precision_notice(parent)]
    shape = shape_of(loaded.module)
    if not plan.is_over(states[-1] if states else None):
        _train(loaded, shape, course, plan, states, (device, listener))
        states = whole_states(plan.folder)
    # Two networks in memory are one too many for a large one.
    del loaded
    gc.collect()
    last = states[-1]
    best = best_check(last.history, plan.settings.watched) if plan.has_checks else {"step": last.step}
    module = restore(shape, load, plan.folder / f"checkpoint-{int(best['step'])}", plan.settings)
    put_in_place(module, parent, folder)
    return _report(last, best, plan.settings.watched, [text for text in notices if text])


def _load(course: Course, seed: int) -> Loaded:
    """The network to train; a new head and low-rank additions are the same whenever it is loaded."""
    import torch

    torch.manual_seed(seed)
    return course.load()


def _train(
    loaded: Loaded, shape: Shape, course: Course, plan: Plan, states: Sequence[State], ends: tuple[Any, FitListener]
) -> None:
    last = states[-1] if states else None
    if last is not None and plan.settings.method != LORA:
        # The Trainer loads by the names in the file, which are not always those in the network.
        loaded = replace(loaded, module=reload(shape, last.folder))
    _simplify_generation(loaded.module)
    train(adapt(loaded, plan.settings), course, plan, last, ends)


def _simplify_generation(module: Any) -> None:
    """Leaves of the generation settings only the tokens: transformers refuses to save some that real models have."""
    stated = getattr(module, "generation_config", None)
    if stated is not None:
        names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
        module.generation_config = type(stated)(**{name: getattr(stated, name) for name in names})


def _report(last: State, best: Mapping[str, float], metric: str, notices: list[str]) -> FitReport:
    """What came of it: which metric decided, by which value and loss, at which step."""
    if metric not in best:
        return FitReport(last.step, int(best["step"]), notices=tuple(notices))
    tied = sum(check[metric] == best[metric] for check in last.history) - 1
    return FitReport(
        last.step, int(best["step"]), metric, best[metric], best["loss"], tied, last.history, tuple(notices)
    )


def _majority(report: FitReport, count: int) -> list[str]:
    """The notice about a model that learnt no more than which answer is the most frequent."""
    best: Mapping[str, float] = next((check for check in report.history if check["step"] == report.best_step), {})
    if count < _FEW_DOCUMENTS or CLASSES not in best:
        return []
    accuracy, share = best[ACCURACY], best[MAJORITY]
    head = f"the kept model (step {report.best_step})"
    if best[CLASSES] == 1:
        told = f"gives all {count} validation documents the same answer, which is right in {accuracy:.1%} of them"
        return [f"{head} {told}"]
    told = f"is right in {accuracy:.1%} of {count} validation documents, the most frequent answer alone in {share:.1%}"
    return [f"{head} {told}"] if accuracy <= share else []


def _require(settings: FitSettings, parent: Parent) -> None:
    require_transformers(f'training "{parent.checkpoint.name}"')
    if settings.method == LORA:
        require_peft()
    try:
        __import__("accelerate")
    except ImportError:
        raise missing_extra("accelerate", "finetune", "training") from None


def _precision_notice(parent: Parent) -> str | None:
    stated = precision(parent.checkpoint, parent.arguments)
    return None if stated == "float32" else f"trained and saved in float32; the parent is in {stated}"
