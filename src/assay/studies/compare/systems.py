"""The runs to compare, their labels, and checks of the options.

In: names as the user wrote them. Out: systems and their records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from assay.core.arguments import LONGEST_IN_NAME
from assay.core.errors import Fault, UnknownName, UserError, did_you_mean
from assay.core.task_variants import LM_EVAL_PREFIX
from assay.stats.power import MIN_ALPHA
from assay.store.run_records import RunRecord
from assay.store.store import Store
from assay.studies.compare.compare_values import System
from assay.studies.paired.matching import MatchedPair
from assay.studies.paired.paired_values import AXES, CORRECTIONS, TESTS, CompareOptions, PairedScore

# Between a run and a task of it; also between a task and its style.
AT = "@"
# Aggregations of whole tasks whose scores are not above 1.
_BOUNDED = (
    *("f1", "macro_f1", "group_em", "group_f1", "matthews_corrcoef", "cohen_kappa", "pearson", "spearman"),
    *("bias_score", "ece", "ece_adaptive", "auroc", "aurc", "selective_acc", "share_of_parts"),
)


def check_options(options: CompareOptions) -> None:
    """Raises one error that lists every invalid setting."""
    faults = []
    for name, value, known in (
        ("--correction", options.correction, CORRECTIONS),
        ("--test", options.test, (None, *TESTS)),
        *(("--across", axis, AXES) for axis in options.across),
    ):
        if value not in known:
            words = [word for word in known if word is not None]
            faults.append(Fault(name, f'"{value}"{did_you_mean(str(value), words)}', "one of " + ", ".join(words)))
    if not MIN_ALPHA <= options.alpha < 0.5:
        faults.append(Fault("--alpha", f"{options.alpha}", f"a number from {MIN_ALPHA:g} to 0.5, such as 0.05"))
    if options.margin is not None and not 0 < options.margin < math.inf:
        advice = "Give the largest difference that does not matter: 0.02 is 2 points"
        faults.append(Fault("--margin", f"{options.margin}", "a number above 0", advice))
    if options.detect is not None and not 0 < abs(options.detect) < math.inf:
        faults.append(Fault("--detect", f"{options.detect}", "a number other than 0"))
    if options.seed < 0:
        faults.append(Fault("--seed", f"{options.seed}", "a whole number, 0 or more"))
    if faults:
        raise UserError(*faults)


def points_as_sizes(options: CompareOptions, score: PairedScore, match: MatchedPair) -> list[Fault]:
    """Faults of a margin, or a difference to detect, larger than any difference of scores: points were meant."""
    sizes = (("--margin", options.margin), ("--detect", options.detect))
    large = [(option, size) for option, size in sizes if size is not None and abs(size) >= 1]
    is_bounded = match.first.recorded.aggregation in _BOUNDED
    if not large or not (is_bounded or (match.first.is_share and match.second.is_share)):
        return []
    name = score.metric if score.filter == "none" else f"{score.metric},{score.filter}"
    where = f"on {score.task}, {name}, whose scores differ by at most 1"
    return [Fault(option, f"{size:g} {where}", "less than 1", "0.02 is 2 points") for option, size in large]


def find_systems(store: Store, runs: Sequence[str], baseline: str | None) -> tuple[list[System], dict[str, RunRecord]]:
    """The runs as systems, the baseline first, and each one's record by its label."""
    named = [_named(store, run) for run in runs]
    if baseline is not None:
        first = _named(store, baseline)
        rest = [item for item in named if (item[0].id, item[1]) != (first[0].id, first[1])]
        named = [first, *rest]
    for index, (record, task) in enumerate(named):
        # A whole run contains the task that is named beside it, which would be compared with itself.
        if any(record.id == other.id and (task == own or None in (task, own)) for other, own in named[:index]):
            raise UserError(Fault("compare", f"run {record.id} is named twice", "different runs, or RUN@TASK"))
    if len(named) < 2:
        raise UserError(Fault("compare", "one run", "two runs or more", "See: assay ls runs"))
    labels = _labels(named)
    systems = [
        System(label, record.id, _model(record), task) for label, (record, task) in zip(labels, named, strict=True)
    ]
    return systems, {system.label: record for system, (record, _) in zip(systems, named, strict=True)}


def _labels(named: Sequence[tuple[RunRecord, str | None]]) -> list[str]:
    """Labels of the systems: the model; for equal models, also arguments, examples per prompt, the task, the run."""
    models = [_model(record) for record, _ in named]
    arguments = _arguments([record for record, _ in named], models)
    entries = [record.tasks for record, _ in named]
    own = [[task] if task else list(known) for (_, task), known in zip(named, entries, strict=True)]
    shots = [
        _shots({known[name].get("num_fewshot") for name in names}) for names, known in zip(own, entries, strict=True)
    ]
    single = [names[0] if len(names) == 1 else "" for names in own]
    kinds = (
        models,
        _joined(models, arguments),
        _joined(models, shots),
        _joined(models, arguments, shots),
        _joined(models, single),
    )
    found = []
    for index, ((record, task), model) in enumerate(zip(named, models, strict=True)):
        same = [other for other, name in enumerate(models) if name == model]
        fitting = [kind for kind in kinds if len({kind[other] for other in same}) == len(same)]
        usual = f"{model} ({record.id[-6:]}{AT + task if task else ''})"
        found.append(fitting[0][index] if fitting else usual)
    return found if len(set(found)) == len(found) else [f"{_model(r)} ({r.id}{AT + t if t else ''})" for r, t in named]


def _joined(*parts: Sequence[str]) -> list[str]:
    return [" ".join(part for part in own if part) for own in zip(*parts, strict=True)]


def _arguments(records: Sequence[RunRecord], models: Sequence[str]) -> list[str]:
    """The arguments that runs of one model do not share; empty for all of them if that would be long."""
    given = [record.spec.get("model_args") or {} for record in records]
    found = []
    for model, own in zip(models, given, strict=True):
        same = [other for other, name in zip(given, models, strict=True) if name == model]
        differing = [key for key in own if any(other.get(key) != own[key] for other in same)]
        found.append(",".join(f"{key}={own[key]}" for key in differing))
    return found if max(map(len, found)) <= LONGEST_IN_NAME else [""] * len(found)


def _shots(counts: set[Any]) -> str:
    return f"{min(counts)}-shot" if len(counts) == 1 and None not in counts else ""


def _named(store: Store, name: str) -> tuple[RunRecord, str | None]:
    run, _, task = name.partition(AT)
    record = store.runs.get(run)
    known = list(record.tasks)
    if task and task not in known:
        found = f'run {record.id} has no task "{task}"{did_you_mean(task, known)}'
        raise UnknownName(Fault(name, found, ", ".join(known)))
    return record, task or None


def _model(record: RunRecord) -> str:
    """The user's name for the model."""
    arguments = record.spec.get("model_args") or {}
    named = str(arguments.get("pretrained") or record.spec.get("model") or record.model)
    return " ".join(named.split())  # a line break would break tables


def wanted_pairs(systems: Sequence[System], has_baseline: bool) -> list[tuple[str, str]]:
    """The pairs to compare: the first with each of the others, or all pairs."""
    labels = [system.label for system in systems]
    return [(labels[0], other) for other in labels[1:]] if has_baseline else list(combinations(labels, 2))


def lm_eval_titles(names: Sequence[Sequence[str]]) -> dict[str, str]:
    """lm-eval's own tasks that one system has and others know by our name: `lm_eval/NAME` → NAME."""
    every = [name for own in names for name in own]
    found = {
        name: name.removeprefix(LM_EVAL_PREFIX)
        for name in every
        if name.startswith(LM_EVAL_PREFIX) and every.count(name) == 1
    }
    return {
        name: plain
        for name, plain in found.items()
        if plain in every and not any(name in own and plain in own for own in names)
    }


def tasks_by_title(names: Sequence[str], titles: Mapping[str, str], is_across_styles: bool) -> dict[str, str]:
    """Title → task. Across styles, the title of a task that occurs in one style is its bare name.

    Args:
        names: the tasks of a system.
        titles: task → title, of tasks that have another title than their name.
        is_across_styles: whether styles are compared.
    """
    own = [titles.get(name, name) for name in names]
    bare = [title.partition(AT)[0] for title in own]
    return {
        base if is_across_styles and bare.count(base) == 1 else title: name
        for base, title, name in zip(bare, own, names, strict=True)
    }
