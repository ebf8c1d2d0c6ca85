"""Systems over several tasks, every task counted once."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from assay.core.recorded_values import DocumentValues
from assay.stats.means import standard_error
from assay.stats.sign_flip import sign_flip_test
from assay.stats.variance import decompose
from assay.studies.paired.differences import PairedComparison, compare_pairs
from assay.studies.paired.matching import SystemEntry, match_documents
from assay.studies.paired.over_tasks import overall_scores
from assay.studies.paired.paired_values import CompareOptions

# On two documents x wins both; on four it loses two.
BASE, X = ([0, 0], [1, 1, 0, 0]), ([1, 1], [0, 0, 0, 0])


def column(task: str, values: dict[str, list[int]], clusters: tuple[str, ...] | None = None) -> list[PairedComparison]:
    entries = [
        SystemEntry(label, DocumentValues(task, "acc", "none", "mean", tuple(range(len(own))), tuple(own), clusters))
        for label, own in values.items()
    ]
    return compare_pairs(
        [match_documents(one, other) for one, other in combinations(entries, 2)], True, CompareOptions()
    )


def test_every_task_counts_once() -> None:
    columns = [column(str(place), {"base": BASE[place], "x": X[place]}) for place in (0, 1)]
    (found,) = overall_scores(CompareOptions(), columns)
    assert (found.first, found.second, found.tasks) == ("base", "x", ("0", "1"))
    assert found.difference.value == pytest.approx((1 - 0.5) / 2)
    # Gaps of ½, ½, −¼, −¼: of 16 ways to sign them, 12 sum to ½ or more either way.
    assert found.p == pytest.approx(12 / 16)


def test_many_pairs_have_the_same_p() -> None:
    columns = [
        column(str(place), {"base": BASE[place], "x": X[place], "y": BASE[place], "z": X[place]}) for place in (0, 1)
    ]
    found = {(score.first, score.second): score.p for score in overall_scores(CompareOptions(), columns)}
    assert found["base", "x"] == pytest.approx(12 / 16) and found["x", "y"] == pytest.approx(12 / 16)
    assert found["x", "z"] == 1.0


def test_clusters_turn_together() -> None:
    first = column("0", {"base": BASE[0], "x": X[0]}, ("p", "p"))
    second = column("1", {"base": BASE[1], "x": X[1]}, ("p", "p", "q", "q"))
    (found,) = overall_scores(CompareOptions(), [first, second])
    # Two clusters with a gap, 1 and −½: their difference is the smallest sum there is.
    assert found.p == 1.0


def test_one_task_has_no_mean() -> None:
    assert overall_scores(CompareOptions(), [column("0", {"base": BASE[0], "x": X[0]})]) == []


def test_variants_of_the_same_documents_are_no_more_documents() -> None:
    """A task in three seeds, always answered alike, says what one of them says."""
    base, x = [0, 0, 1, 0, 1, 0, 0, 1], [1, 1, 1, 0, 0, 1, 1, 1]
    names = ("t@asked#seed=1", "t@asked#seed=2", "t@told#seed=1")
    (found,) = overall_scores(CompareOptions(), [column(name, {"base": base, "x": x}) for name in names])
    gaps = [second - first for first, second in zip(base, x, strict=True)]
    assert found.p == pytest.approx(sign_flip_test(np.array(gaps, dtype=float), None, np.random.default_rng(0)).p)
    assert (found.difference.stderr, found.difference.n) == (pytest.approx(standard_error(gaps)), 8)
    assert found.tasks == names


def test_variants_and_other_tasks_are_added_up() -> None:
    """Gaps of 1, 0 and 0, 1 in two variants are ½, ½; with another task that has 1, 1."""
    ways = [column(f"t#seed={place}", {"base": [0, 0], "x": own}) for place, own in ((1, [1, 0]), (2, [0, 1]))]
    (found,) = overall_scores(CompareOptions(), [*ways, column("u", {"base": [0, 0], "x": [1, 1]})])
    assert (found.difference.value, found.difference.n) == (pytest.approx((0.5 + 0.5 + 1) / 3), 4)
    assert found.p == pytest.approx(2 / 16)
    message = (
        "Over 2 tasks in 3 variants, each variant counted once, for these 2 seeds of t alone, no difference was found"
    )
    assert found.verdict.startswith(message)


def test_variants_without_any_difference_keep_an_interval() -> None:
    same = {"base": [1, 0, 1], "x": [1, 0, 1]}
    (found,) = overall_scores(CompareOptions(), [column(f"t#order={place}", same) for place in (1, 2)])
    alone = column("t", same)[0].score.difference
    assert (found.difference.low, found.difference.high) == pytest.approx((alone.low, alone.high))


def asked(prompts: int, seeds: int, n: int, generator: np.random.Generator) -> list[list[PairedComparison]]:
    """Two models that are equal over prompts, of which each has its own effect on each model."""
    easy, lifts = generator.normal(0, 1, size=n), generator.normal(0, 0.4, size=(2, prompts))
    columns = []
    for prompt in range(prompts):
        for seed in range(seeds):
            chance = 1 / (1 + np.exp(-(easy + lifts[:, prompt : prompt + 1])))
            right = (generator.random((2, n)) < chance).astype(int).tolist()
            columns.append(column(f"t@p{prompt}#seed={seed}", dict(zip("ab", right, strict=True))))
    return columns


def test_prompts_are_a_sample_where_there_are_three_or_more() -> None:
    """Once, 13 of 25 equal models were declared different over four prompts."""
    generator = np.random.default_rng(1)
    found = [overall_scores(CompareOptions(), asked(4, 1, 200, generator))[0] for _ in range(25)]
    assert {score.test for score in found} == {"random-effects-t"}
    assert {score.random for score in found} == {("4 prompts of t",)}
    assert sum(score.outcome != "none" for score in found) <= 4
    assert found[0].verdict.startswith(
        "Over 4 variants of t, each counted once, taking the 4 prompts of t as a random sample, "
    )


def test_two_prompts_speak_for_themselves_alone() -> None:
    (found,) = overall_scores(CompareOptions(), asked(2, 3, 60, np.random.default_rng(2)))
    assert (found.random, found.fixed, found.test) == (("3 seeds of t",), ("2 prompts of t",), "random-effects-t")
    (few,) = overall_scores(CompareOptions(), asked(2, 1, 60, np.random.default_rng(2)))
    assert (few.random, few.fixed, few.test) == ((), ("2 prompts of t",), "sign-flip")
    assert ", for these 2 prompts of t alone, " in few.verdict


def test_the_error_over_prompts_is_that_of_runs_variance() -> None:
    columns = asked(4, 3, 50, np.random.default_rng(3))
    (found,) = overall_scores(CompareOptions(), columns)
    gaps = np.stack([item.differences for (item,) in columns if item.differences is not None], axis=1)
    parts = decompose(gaps.reshape(50, 4, 3), ["document", "prompt", "seed"])
    assert (found.difference.value, found.difference.stderr) == pytest.approx((parts.mean, parts.stderr))
    t = scipy.stats.t(parts.degrees)
    assert found.p == pytest.approx(2 * t.sf(abs(parts.mean) / (parts.stderr or 0.0)))
    reach = t.ppf(0.975) * (parts.stderr or 0.0)
    assert found.difference.high == pytest.approx(parts.mean + reach)


def test_variants_that_are_not_crossed_speak_for_themselves_alone() -> None:
    columns = asked(4, 2, 40, np.random.default_rng(4))[:-1]
    (found,) = overall_scores(CompareOptions(), columns)
    assert found.fixed == ("4 prompts of t", "2 seeds of t") and found.test == "sign-flip"


def test_styles_are_chosen_and_no_sample() -> None:
    columns = [[replace(item, is_style=True) for item in own] for own in asked(4, 1, 40, np.random.default_rng(4))]
    (found,) = overall_scores(CompareOptions(), columns)
    assert found.fixed == ("4 styles of t",)


@pytest.mark.parametrize("names", [("t", "u"), ("t@a", "t@b"), ("t@a", "t@b", "t@c", "u")])
@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_no_verdict_over_tasks_contradicts_its_interval(names: tuple[str, ...], correction: str) -> None:
    generator = np.random.default_rng(5)
    found = 0
    for alpha in (0.2, 0.05):
        options = CompareOptions(alpha=alpha, correction=correction)
        for _ in range(15):
            shares = np.array([0.4, 0.5, 0.6, 0.65])[:, None]
            values = [(generator.random((4, 40)) < shares).astype(int).tolist() for _ in names]
            columns = [
                column(name, dict(zip("abcd", own, strict=True))) for name, own in zip(names, values, strict=True)
            ]
            for score in overall_scores(options, columns):
                low, high = score.difference.low, score.difference.high
                assert low is not None and high is not None
                assert (score.outcome == "none") == (low <= 0 <= high)
                found += score.outcome != "none"
    assert found > 10


def test_a_small_task_beside_a_large_one_keeps_its_weight() -> None:
    """Five of ten documents differ in the one, none of a thousand in the other: 25 points, each task counted once."""
    small = column("small", {"base": [0] * 10, "x": [1] * 5 + [0] * 5})
    large = column("large", {"base": [1] * 1000, "x": [1] * 1000})
    (found,) = overall_scores(CompareOptions(), [small, large])
    low, high = found.difference.low, found.difference.high
    assert found.difference.value == 0.25 and low is not None and high is not None
    assert low < 0 < 0.25 < high
