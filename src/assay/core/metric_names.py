"""Metrics whose reported name contains a setting: `pass@k` with `k: [1, 5]` is reported as `pass@1` and `pass@5`.

In: entries of a `metric_list`, or names. Out: one entry per reported name, with its settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.specs import MetricSpec

# Names used in papers and other libraries → Assay's names.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "acc1", "top1"), ("acc",)),
    **dict.fromkeys(("accuracy_norm", "acc_normalized", "normalized_accuracy", "norm_acc"), ("acc_norm",)),
    **dict.fromkeys(("em", "exact", "exactmatch", "quasi_exact_match", "string_match"), ("exact_match",)),
    **dict.fromkeys(("f1_score", "macro_f1", "micro_f1", "weighted_f1", "f_score"), ("f1", "squad_f1")),
    **dict.fromkeys(("mcc_score", "matthews", "matthews_corrcoef", "matthews_correlation"), ("mcc",)),
    **dict.fromkeys(("rouge", "rouge_score"), ("rouge1", "rouge2", "rougeL")),
    **dict.fromkeys(("rouge_l", "rouge-l"), ("rougeL",)),
    **dict.fromkeys(("bleu4", "bleu_4", "bleu-4", "sacrebleu"), ("bleu",)),
    **dict.fromkeys(("ppl", "pplx"), ("perplexity", "word_perplexity", "token_perplexity")),
    **dict.fromkeys(("nll", "loss", "cross_entropy"), ("nats_per_token",)),
    **dict.fromkeys(("bpb", "bits_per_char", "bits_per_character"), ("bits_per_byte",)),
    **dict.fromkeys(("kappa", "cohens_kappa"), ("cohen_kappa",)),
    **dict.fromkeys(("auc", "roc_auc"), ("auroc",)),
    **dict.fromkeys(("brier",), ("brier_score",)),
    **dict.fromkeys(("logloss",), ("log_loss",)),
    **dict.fromkeys(("calibration", "calibration_error"), ("ece",)),
    **dict.fromkeys(("squad",), ("squad_em", "squad_f1")),
    **dict.fromkeys(("majority", "majority_vote", "self_consistency"), ("maj@5",)),
}


def similar_metrics(name: str, known: Iterable[str]) -> str:
    """` (did you mean "acc"?)`: Assay's name for a metric known elsewhere, or else the closest names."""
    ours = OTHER_NAMES.get(name.lower().replace(" ", "_"), ())
    if not ours:
        return did_you_mean(name, known)
    return " (did you mean " + " or ".join(f'"{metric}"' for metric in ours) + "?)"


@dataclass(frozen=True, slots=True)
class _Setting:
    """A number that is part of a metric's name.

    Attributes:
        key: its name in task files.
        default: value if none is given.
        is_fit: whether a value is valid.
        expected: the valid values, in words.
    """

    key: str
    default: float
    is_fit: Callable[[Any], bool]
    expected: str


@dataclass(frozen=True, slots=True)
class _Family:
    """Metrics that differ in their settings only.

    Attributes:
        shown: the reported name, with a brace for each setting.
        settings: its settings, in the order of the name.
    """

    shown: str
    settings: tuple[_Setting, ...]

    def values(self, name: str) -> tuple[float, ...] | None:
        """The settings in a name; None for a name of another family."""
        # The second setting may be omitted from a name: gpass@5 is gpass@5:0.5.
        match = re.fullmatch(_pattern(self.shown), name) or re.fullmatch(_pattern(self.shown.partition(":")[0]), name)
        return None if match is None else tuple(map(_number, match.groups()))


def _pattern(shown: str) -> str:
    return re.escape(shown).replace(r"\{\}", r"(\d+(?:\.\d+)?)")


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_K = _Setting(
    "k", 1, lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0, "1 or more draws"
)
_TAU = _Setting("tau", 0.5, lambda value: _is_number(value) and 0 <= value <= 1, "a share from 0 to 1")
_COVERAGE = _Setting("coverage", 0.8, lambda value: _is_number(value) and 0 < value <= 1, "a share above 0, 1 at most")
# Metrics that use several draws of a question at once.
DRAW_METRICS = ("pass@k", "pass^k", "maj@k", "mean@k", "gpass@k")
SELECTIVE = "selective_acc"
_FAMILIES = {
    "pass@k": _Family("pass@{}", (_K,)),
    "pass^k": _Family("pass^{}", (_K,)),
    "maj@k": _Family("maj@{}", (_K,)),
    "mean@k": _Family("mean@{}", (_K,)),
    "gpass@k": _Family("gpass@{}:{}", (_K, _TAU)),
    SELECTIVE: _Family(SELECTIVE + "@{}", (_COVERAGE,)),
}


def family_of(name: str) -> str:
    """`pass@k` for `pass@5`; any other name is returned as it is."""
    if "@" not in name and "^" not in name:
        return name
    return next((family for family, rule in _FAMILIES.items() if rule.values(name) is not None), name)


def uses_all_draws(name: str) -> bool:
    """Whether a metric of this name, reported or listed, uses all draws of a question."""
    return family_of(name) in DRAW_METRICS


def name_faults(entry: Mapping[str, Any], where: str = "") -> list[Fault]:
    """The faults in the settings of an entry; none for metrics without settings in their name."""
    name = entry.get("metric")
    rule = _FAMILIES.get(family_of(name)) if isinstance(name, str) else None
    if rule is None:
        return []
    faults = []
    held = rule.values(str(name)) or ()
    for index, setting in enumerate(rule.settings):
        own = [held[index]] if index < len(held) else []
        given = _listed(entry.get(setting.key, own or setting.default))
        wrong = [value for value in given if not setting.is_fit(value)]
        if wrong or not given:
            shown = f"is {wrong[0]!r}" if wrong else "is empty"
            faults.append(Fault(where, f'"{setting.key}" of the metric "{name}" {shown}', setting.expected))
        elif own and given != own:
            message = f'"{setting.key}" of the metric "{name}" is {entry[setting.key]!r}'
            faults.append(Fault(where, message, f"{own[0]:g}, as its name says, or the name {family_of(str(name))}"))
    return faults


def expanded_entries(entries: Iterable[Mapping[str, Any]], where: str = "metric_list") -> list[Mapping[str, Any]]:
    """One entry per reported name, with its settings as single numbers; other entries unchanged."""
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        name = entry["metric"]
        rule = _FAMILIES.get(family_of(name)) if isinstance(name, str) else None
        if rule is None:
            found.append(entry)
            continue
        faults = name_faults(entry, where)
        if faults:
            raise UserError(*faults)
        held = rule.values(name) or ()
        own = {setting.key: value for setting, value in zip(rule.settings, held, strict=False)}
        choices = [_listed(entry.get(s.key, own.get(s.key, s.default))) for s in rule.settings]
        for values in product(*choices):
            settings = {setting.key: value for setting, value in zip(rule.settings, values, strict=True)}
            found.append({**entry, "metric": rule.shown.format(*(f"{value:.15g}" for value in values)), **settings})
    return found


def expanded_specs(specs: Iterable[MetricSpec], where: str = "metrics") -> tuple[MetricSpec, ...]:
    """The same for parsed metric specs; the task's own functions keep their names."""
    found = []
    for spec in specs:
        if spec.function is not None or family_of(spec.name) not in _FAMILIES:
            found.append(spec)
            continue
        for entry in expanded_entries([{**spec.options, "metric": spec.name}], where):
            options = {key: value for key, value in entry.items() if key != "metric"}
            found.append(replace(spec, name=entry["metric"], options=options))
    return tuple(found)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
