"""Two models that are equal over all prompts, evaluated with a few: how often a difference is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assay.core.recorded_values import DocumentValues
from assay.stats.sign_flip import sign_flip_test
from assay.studies.paired.differences import PairedComparison, compare_pairs
from assay.studies.paired.matching import SystemEntry, match_documents
from assay.studies.paired.over_tasks import overall_scores
from assay.studies.paired.paired_values import CompareOptions
from bench.levels.evaluating import Rate, generator_of

DOCUMENTS = 200
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class PromptRates:
    """False findings: by the test of `assay compare`, and with the prompts treated as fixed."""

    found: Rate
    fixed: Rate


def asked(
    prompts: int, effect: float, generator: np.random.Generator, n: int = DOCUMENTS
) -> list[list[PairedComparison]]:
    """Documents of normal difficulty; each prompt lifts or lowers each model by a normal effect, on the logit scale."""
    easy, lifts = generator.normal(0, 1, size=n), generator.normal(0, effect, size=(2, prompts))
    columns = []
    for prompt in range(prompts):
        chance = 1 / (1 + np.exp(-(easy + lifts[:, prompt : prompt + 1])))
        right = (generator.random((2, n)) < chance).astype(float).tolist()
        first, second = (
            SystemEntry(label, DocumentValues(f"t@p{prompt}", "acc", "none", "mean", range(n), own))
            for label, own in zip("ab", right, strict=True)
        )
        columns.append(compare_pairs([match_documents(first, second)], True, CompareOptions()))
    return columns


def prompt_rates(prompts: int, effect: float, evaluations: int) -> PromptRates:
    """Of models that are equal in expectation over prompts."""
    setting = f"{prompts} prompts, effect {effect:g}"
    generator = generator_of(setting, DOCUMENTS)
    found, fixed = [], []
    for _ in range(evaluations):
        columns = asked(prompts, effect, generator)
        (score,) = overall_scores(CompareOptions(), columns)
        found.append(score.outcome != "none")
        gaps = np.mean([item.differences for (item,) in columns if item.differences is not None], axis=0)
        fixed.append(sign_flip_test(gaps, None, np.random.default_rng(0)).p < ALPHA)
    shares = float(np.mean(found)), float(np.mean(fixed))
    return PromptRates(*(Rate(setting, DOCUMENTS, share, evaluations) for share in shares))


def all_prompt_rates(evaluations: int) -> Iterator[tuple[int, float, PromptRates]]:
    for effect in (0.0, 0.1, 0.4):
        for prompts in (2, 3, 4, 5, 8):
            yield prompts, effect, prompt_rates(prompts, effect, evaluations)
