"""Stated 95 % intervals and tests at 5 %, in simulated evaluations through the functions that make a run's numbers.

`python -m bench.levels` simulates more, and docs/statistics.md shows what it finds. Bands are those of the exact level
where it can be computed, else wide enough for three errors of the simulation.
"""

from __future__ import annotations

import math

import pytest

from bench.levels import pairs, prompts, scores, statistics, stopping
from bench.levels.__main__ import SECTIONS, Many, main, table
from bench.levels.evaluating import Rate, comparison_of, score_of


def noise(share: float, evaluations: int) -> float:
    """Three simulation errors."""
    return 3 * math.sqrt(share * (1 - share) / evaluations)


# Coverage


@pytest.mark.parametrize("n", scores.SIZES)
def test_shares_are_covered_in_93_to_97_percent_at_every_point(n: int) -> None:
    """In whole percents: on 30 documents the exact coverage is .9298 at p = .3 and .9742 at p = .1."""
    found = [scores.exact_share_coverage(n, share) for share in scores.SHARES]
    assert len(found) == 19 and (scores.SHARES[0], scores.SHARES[-1]) == (0.05, 0.95)
    assert round(min(found), 2) >= 0.93 and round(max(found), 2) <= 0.97
    assert sum(found) / 19 == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize("n", scores.SIZES)
def test_2000_simulated_evaluations_cover_as_often_as_the_exact_sum_says(n: int) -> None:
    for share in scores.SHARES:
        exact = scores.exact_share_coverage(n, share)
        assert scores.share_coverage(n, share, 2000).share == pytest.approx(exact, abs=noise(exact, 2000))


def test_of_the_usual_intervals_wilsons_keeps_closest_to_95_percent_on_30_documents() -> None:
    """With 31 possible results none can be much closer; at the same points the others are further from 95 %."""
    farthest = {
        method: max(abs(0.95 - end) for end in scores.coverage_range(method, 30))
        for method in ("wilson", "jeffreys", "agresti_coull", "beta", "normal")
    }
    assert min(farthest, key=farthest.__getitem__) == "wilson"
    own = [scores.exact_share_coverage(30, share) for share in scores.SHARES]
    assert scores.coverage_range("wilson", 30) == pytest.approx((min(own), max(own)))


def test_the_intervals_are_those_of_a_run() -> None:
    """29 of 30 right: Wilson's interval by hand, (29 + z²/2 ± …)/(30 + z²)."""
    z2 = 1.959963984540054**2
    centre, reach = (29 + z2 / 2) / (30 + z2), math.sqrt(z2) * math.sqrt(29 / 30 + z2 / 4) / (30 + z2)
    assert scores.share_intervals(30)[29].tolist() == pytest.approx([centre - reach, centre + reach])
    assert score_of("mean", [1.0] * 29 + [0.0]).method == "wilson"


@pytest.mark.parametrize(
    ("name", "n", "low", "high"),
    [
        ("uniform from 0 to 1", 30, 0.93, 0.97),
        ("0, 1 and between, as F1 of answers", 100, 0.93, 0.97),
        ("9 of 10 are 0, the rest from 0 to 1", 100, 0.93, 0.97),
        ("exponential", 100, 0.92, 0.97),
    ],
)
def test_means_are_covered(name: str, n: int, low: float, high: float) -> None:
    found = scores.mean_coverage(name, n, 400).share
    assert low - noise(0.95, 400) <= found <= high + noise(0.95, 400)


@pytest.mark.parametrize(("clusters", "share"), [(20, 0.5), (50, 0.8), (50, 0.95)])
def test_clustered_shares_are_covered(clusters: int, share: float) -> None:
    """Student's interval covers 90 % at 95 % right in 50 clusters."""
    assert 0.93 - noise(0.95, 400) <= scores.clustered_coverage(clusters, share, 400).share <= 0.99


def test_groups_draws_and_samples_are_covered() -> None:
    found = [
        scores.group_coverage((0.3, 0.5, 0.7), 30, 200),
        scores.draws_coverage("pass@5, few solved", (0.1, 2.0), 100, 200),
        scores.sample_coverage(100, True, True, 200),
        scores.sample_coverage(100, False, True, 200),
    ]
    assert [rate for rate in found if not 0.95 - noise(0.95, 200) <= rate.share <= 0.99] == []


def test_resampled_metrics_are_covered() -> None:
    found = [statistics.label_coverage(name, (0.5, 0.8), 30, 100) for name in statistics.LABELS]
    assert [rate for rate in found if not 0.93 - noise(0.95, 100) <= rate.share] == []


def test_calibration_errors_are_covered_also_one_of_0() -> None:
    """Bootstrap percentiles never contain it."""
    for rate in statistics.calibration_coverages(30):
        assert rate.share >= 0.83, rate


# False findings


@pytest.mark.parametrize("discordance", [0.2, 0.3, 0.4])
def test_the_default_test_errs_in_4_to_6_percent_on_1000_documents(discordance: float) -> None:
    exact = pairs.exact_level("exact", 1000, discordance)
    assert 0.04 <= exact <= 0.06
    found = pairs.outcome_rate("exact", 1000, discordance, evaluations=1000).share
    assert found == pytest.approx(exact, abs=noise(exact, 1000))


@pytest.mark.parametrize(("n", "discordance"), [(30, 0.35), (50, 0.2), (100, 0.1), (100, 0.4), (1000, 0.3)])
def test_mid_p_errs_in_4_to_6_percent_from_ten_discordant_documents_on(n: int, discordance: float) -> None:
    assert n * discordance >= 10
    assert 0.04 <= pairs.exact_level("midp", n, discordance) <= 0.06


@pytest.mark.parametrize(
    ("test", "n", "most"), [("exact", 5, 0.05), ("exact", 100, 0.05), ("midp", 12, 0.06), ("midp", 100, 0.06)]
)
def test_no_test_of_outcomes_errs_in_more_than_6_percent(test: str, n: int, most: float) -> None:
    assert max(pairs.exact_level(test, n, share) for share in (0.02, 0.1, 0.3, 0.5, 0.8, 1.0)) <= most


def test_mid_p_errs_a_little_more_often_where_all_of_five_documents_differ() -> None:
    """All five one way, 2 in 32, is called a finding: mid-p 1/32."""
    assert pairs.exact_level("midp", 5, 1.0) == pytest.approx(2 / 32)


def test_exact_levels_are_those_of_the_simulation() -> None:
    for test in ("exact", "midp"):
        exact = pairs.exact_level(test, 100, 0.3)
        found = pairs.outcome_rate(test, 100, 0.3, evaluations=2000).share
        assert found == pytest.approx(exact, abs=noise(exact, 2000))


def test_sign_flips_and_bootstraps_err_in_5_percent() -> None:
    for name in ("sign flips, symmetric differences", "bootstrap of means"):
        false, covered = pairs.equal_rate(name, 30, 250)
        assert false.share <= 0.06 + noise(0.05, 250)
        assert covered.share >= 0.94 - noise(0.05, 250)


def test_flips_of_clusters_err_in_5_percent() -> None:
    false, covered = pairs.clustered_rate(20, 400)
    assert false.share <= 0.06 + noise(0.05, 400)
    assert covered.share >= 0.93 - noise(0.05, 400)


def test_the_interval_that_inverts_mcnemars_test_covers() -> None:
    for n in (30, 100, 1000):
        assert pairs.difference_coverage("exact", n, 0.3, 0.1, 400).share >= 0.95 - noise(0.95, 400)
        assert 0.93 - noise(0.95, 400) <= pairs.difference_coverage("midp", n, 0.3, 0.1, 400).share


def test_models_that_are_equal_over_prompts_are_rarely_declared_different() -> None:
    rates = prompts.prompt_rates(4, 0.4, 150)
    assert rates.fixed.share > 0.3
    assert rates.found.share <= 0.05 + noise(0.05, 150)


def test_holm_keeps_any_false_finding_among_ten_tasks_at_5_percent() -> None:
    assert pairs.any_finding(10, 60, "holm", 400).share <= 0.05 + noise(0.05, 400)


def test_equivalence_is_claimed_at_the_margin_in_5_percent_and_inside_it_often() -> None:
    assert pairs.margin_rate(300, 0.1, 0.05, 1000).share <= 0.05 + noise(0.05, 1000)
    assert pairs.margin_rate(300, 0.1, 0.0, 400).share >= 0.6


def test_a_difference_detectable_with_80_percent_is_found_so_often() -> None:
    """It is slightly larger than the normal approximation, because the exact test is stricter."""
    effect, normal = pairs.shown_effect(200, 0.3), (1.959964 + 0.841621) * math.sqrt(0.3 / 200)
    assert normal < effect < 1.03 * normal
    assert pairs.outcome_rate("exact", 200, 0.3, effect, 1000).share == pytest.approx(0.8, abs=0.04)


# Stopping early


def test_laps_are_those_of_a_run() -> None:
    assert list(stopping.laps(100)) == [32, 40, 50, 63, 79, 99, 100]


def test_equal_runs_are_declared_different_in_5_percent_at_most_however_often_one_looks() -> None:
    found = [stopping.wrong_decisions(1000, share, 600) for share in (0.1, 0.4)]
    found.append(stopping.wrong_decisions_of_values(1000, 300))
    assert [rate for rate in found if rate.share > 0.05] == []
    assert stopping.peeking_mcnemar(1000, 0.4, 300).share > 0.2  # an ordinary test at every look
    assert stopping.right_decisions(1000, 0.3, 0.1, 200).share > 0.9


def test_bounds_hold_where_a_run_stops() -> None:
    found = stopping.until_error(0.9, 0.06, 300, 40)
    assert found.bounds.share >= 0.92
    assert found.documents < 200


@pytest.mark.slow
def test_levels_hold_at_length() -> None:
    for share in (0.5, 0.8, 0.9, 0.95):
        for clusters in (20, 50, 200):
            assert scores.clustered_coverage(clusters, share).share >= 0.915
    for discordance in (0.05, 0.1, 0.4):
        assert stopping.wrong_decisions(3000, discordance).share <= 0.05
    for name in pairs.EQUAL:
        false, _ = pairs.equal_rate(name, 100, 600)
        assert false.share <= 0.06 + noise(0.05, 600), name
    stopped = stopping.until_error(0.7, 0.04, 1000, 300)
    assert stopped.bounds.share >= 0.95


# The tables


def test_a_table_has_settings_in_rows_and_documents_in_columns() -> None:
    rates = [Rate("a", 30, 0.95, 100), Rate("a", 100, 0.931, 98, 2), Rate("b", 100, 0.5, 100)]
    assert table("T", rates).splitlines() == [
        *("T", "", "| | n = 30 | n = 100 |", "|---|---|---|", "| a | 95.0 | 93.1 |", "| b |  | 50.0 |"),
        *("", "Left out, without an interval: 2 of 300."),
    ]


def test_the_command_prints_the_tables_requested(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "groups", "families", "--evaluations", "4"])
    assert capsys.readouterr().out.count("\n|---|") == 2
    assert "n = 100" in SECTIONS["draws"](Many(2, 2))


def test_settings_are_simulated_alike_whatever_else_is() -> None:
    assert scores.mean_coverage("exponential", 30, 50) == scores.mean_coverage("exponential", 30, 50)
    assert comparison_of([0, 1, 1, 0], [1, 1, 1, 1]).test == "mcnemar"
