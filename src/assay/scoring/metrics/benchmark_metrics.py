"""Definitions of metrics that belong to single benchmarks: MATH, Minerva, DROP, CoQA, TruthfulQA and IFEval.

They are looked up in `assay.scoring.registry` like all others.
"""

from __future__ import annotations

from assay.scoring.metrics.definitions import MetricDefinition, Value
from assay.scoring.scorers import passage_answers, worked_answers
from assay.scoring.scorers.instruction_following import InstructionsFollowed, PromptFollowed
from assay.scoring.scorers.reference_closeness import Closeness

_GENERATED = "generate_until"
_SHARE = (0.0, 1.0)


def _of_answer(
    name: str, value: Value, description: str, *options: str, reads_document: bool = False
) -> MetricDefinition:
    """The mean of a number from 0 to 1 for each generated answer."""
    values = {_GENERATED: value}
    return MetricDefinition(
        name, "mean", True, values, description, frozenset(options), span=_SHARE, reads_document=reads_document
    )


math_match = _of_answer(
    "math_match",
    worked_answers.math_match,
    "share of answers between dollar signs equal to the right one in MATH's plain LaTeX; boxed, stated, solution",
    "boxed",
    "stated",
    "solution",
    reads_document=True,
)
minerva_match = _of_answer(
    "minerva_match",
    worked_answers.MinervaMatch(),
    "share of Minerva's final answers with the right spelling or value; original: the paper's rules; solution",
    "original",
    "solution",
    reads_document=True,
)
math_verify = _of_answer(
    "math_verify",
    worked_answers.VerifiedAnswer(),
    "share of solutions in which math-verify finds the right answer; solution: its column, latex: formulas only",
    "solution",
    "latex",
    reads_document=True,
)
drop_em = _of_answer(
    "drop_em", passage_answers.drop_em, "DROP's exact match with any right answer", reads_document=True
)
drop_f1 = _of_answer(
    "drop_f1",
    passage_answers.drop_f1,
    "DROP's F1 with the closest right answer; numbers must agree",
    reads_document=True,
)
coqa_em = _of_answer("coqa_em", passage_answers.coqa_em, "CoQA's exact match, leaving out one right answer at a time")
coqa_f1 = _of_answer("coqa_f1", passage_answers.coqa_f1, "CoQA's token F1, leaving out one right answer at a time")


def _closeness(measure: str, summary: str) -> MetricDefinition:
    described = {
        "max": f"{measure} of the closest true reference, 0 to 100 (TruthfulQA)",
        "acc": f"share of answers closer to a true than to any false reference by {measure} (TruthfulQA)",
        "diff": f"{measure} of the closest true reference, less that of the closest false one (TruthfulQA)",
    }
    span = {"max": (0.0, 100.0), "acc": _SHARE, "diff": (-100.0, 100.0)}[summary]
    values: dict[str, Value] = {_GENERATED: Closeness(measure, summary)}
    name = f"{measure}_{summary}"
    return MetricDefinition(name, "mean", True, values, described[summary], span=span, reads_document=True)


bleu_max, bleu_acc, bleu_diff = (_closeness("bleu", summary) for summary in ("max", "acc", "diff"))
rouge1_max, rouge1_acc, rouge1_diff = (_closeness("rouge1", summary) for summary in ("max", "acc", "diff"))
rouge2_max, rouge2_acc, rouge2_diff = (_closeness("rouge2", summary) for summary in ("max", "acc", "diff"))
rougeL_max, rougeL_acc, rougeL_diff = (_closeness("rougeL", summary) for summary in ("max", "acc", "diff"))  # noqa: N816


def _followed(name: str, is_loose: bool) -> MetricDefinition:
    how = "loosely" if is_loose else "strictly"
    if name.startswith("prompt"):
        value, described = PromptFollowed(is_loose), f"share of prompts with every instruction {how} followed (IFEval)"
        return _of_answer(name, value, described, reads_document=True)
    values: dict[str, Value] = {_GENERATED: InstructionsFollowed(is_loose)}
    described = f"share of instructions {how} followed (IFEval)"
    return MetricDefinition(name, "share_of_parts", True, values, described, reads_document=True)


prompt_level_strict_acc = _followed("prompt_level_strict_acc", False)
inst_level_strict_acc = _followed("inst_level_strict_acc", False)
prompt_level_loose_acc = _followed("prompt_level_loose_acc", True)
inst_level_loose_acc = _followed("inst_level_loose_acc", True)
