"""Measures how often stated 95 % intervals hold the truth and how often tests err, and prints Markdown tables.

    python -m bench.levels [--evaluations 2000] [--resampled 500] [--only shares means …]

Seeded: the same numbers every time. About six minutes on one core (set OPENBLAS_NUM_THREADS=1 on a busy machine).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.levels import pairs, prompts, scores, statistics, stopping
from bench.levels.evaluating import EVALUATIONS, Rate

RESAMPLED = 500
# A run of `--until_se` looks at its answers ten to twenty times.
_STOPPED = 300


@dataclass(frozen=True, slots=True)
class Many:
    """Number of evaluations to simulate: per setting, and per setting with thousands of bootstrap samples."""

    plain: int
    resampled: int


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def drawn(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table below its title."""
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([title, "", lines[0].replace("|  |", "| |"), "|" + "---|" * len(heads), *lines[1:], ""])


def table(title: str, rates: Iterable[Rate], unit: str = "n") -> str:
    """Settings in rows, numbers of documents in columns."""
    found = list(rates)
    sizes = sorted({rate.n for rate in found})
    rows: dict[str, dict[int, Rate]] = {}
    for rate in found:
        rows.setdefault(rate.setting, {})[rate.n] = rate
    cells = [[name, *(percent(own[n].share) if n in own else "" for n in sizes)] for name, own in rows.items()]
    text = drawn(title, ["", *(f"{unit} = {n}" for n in sizes)], cells)
    lacking = sum(rate.without for rate in found)
    if lacking:
        text += f"\nLeft out, without an interval: {lacking} of {sum(r.evaluations + r.without for r in found)}.\n"
    return text


def shares(many: Many) -> str:
    heads = ["p", *(head for n in scores.SIZES for head in (f"n = {n}, exact", "simulated"))]
    rows = []
    for share in scores.SHARES:
        found = [
            (scores.exact_share_coverage(n, share), scores.share_coverage(n, share, many.plain).share)
            for n in scores.SIZES
        ]
        rows.append([f"{share:.2f}", *(percent(one) for both in found for one in both)])
    return drawn("Shares of right answers (`wilson`), coverage in %", heads, rows)


_OTHERS = {
    "Wilson": "wilson",
    "Jeffreys": "jeffreys",
    "Agresti and Coull": "agresti_coull",
    "Clopper and Pearson": "beta",
    "± 1.96 standard errors": "normal",
}


def intervals(many: Many) -> str:
    title = "Intervals of shares at the same 19 points, lowest and highest exact coverage in %"
    rows = []
    for name, method in _OTHERS.items():
        ends = [scores.coverage_range(method, n) for n in scores.SIZES]
        rows.append([name, *(f"{percent(low)} to {percent(high)}" for low, high in ends)])
    return drawn(title, ["", *(f"n = {n}" for n in scores.SIZES)], rows)


def means(many: Many) -> str:
    return table("Means of other values (`wilson-t`, `t`), coverage in %", scores.mean_coverages(many.plain))


def clusters(many: Many) -> str:
    title = "Shares in clusters of five, correlated by .3 (`clustered-wilson`), coverage in %"
    return table(title, scores.clustered_coverages(many.plain), "clusters")


def groups(many: Many) -> str:
    return table("Means over leaf tasks (`mover`), coverage in %", scores.group_coverages(many.plain), "n each")


def draws(many: Many) -> str:
    return table("Ten draws of each document (`wilson-t`), coverage in %", scores.draws_coverages(many.plain))


def samples(many: Many) -> str:
    title = "A full run of 1,000 documents from a sample (`finite-…`, `difference-…`), coverage in %"
    return table(title, scores.sample_coverages(many.plain))


def ratios(many: Many) -> str:
    return table("Perplexities (`log-t`, `log-delta`, `delta`), coverage in %", statistics.ratio_coverages(many.plain))


def resampled(many: Many) -> str:
    rates = [
        *statistics.label_coverages(many.resampled),
        *statistics.median_coverages(many.resampled),
        *statistics.confidence_coverages(many.resampled),
        *statistics.calibration_coverages(many.resampled),
    ]
    return table("Resampled metrics (`bootstrap`, `gap-bootstrap`), coverage in %", rates)


def differences(many: Many) -> str:
    rates = pairs.difference_coverages(many.plain)
    return table("Difference of two shares (`mcnemar`, `mcnemar-midp`), coverage in %", rates)


def measured(many: Many) -> str:
    rates = pairs.different_coverages(many.resampled)
    return table("Difference of other values (`sign-flip`), coverage in %", rates)


def asked(many: Many) -> str:
    rows = [
        [str(count), f"{effect:g}", percent(rates.fixed.share), percent(rates.found.share)]
        for count, effect, rates in prompts.all_prompt_rates(many.resampled)
    ]
    title = "Models that are equal over prompts, on 200 documents: false findings at 5 %, in %"
    return drawn(title, ["prompts", "SD of a prompt's effect", "these prompts only", "as compared"], rows)


def outcomes(many: Many) -> str:
    rows = []
    for n, share in ((30, 0.1), (30, 0.3), (100, 0.1), (100, 0.3), (1000, 0.05), (1000, 0.2), (1000, 0.4)):
        cells = []
        for test in ("exact", "midp"):
            cells.append(percent(pairs.exact_level(test, n, share)))
            cells.append(percent(pairs.outcome_rate(test, n, share, evaluations=many.plain).share))
        rows.append([str(n), f"{share:.0%}", f"{n * share:.0f}", *cells])
    heads = ["n", "discordant", "expected number", "exact", "exact, simulated", "mid-p", "mid-p, simulated"]
    return drawn("False findings at 5 % between equal runs, outcomes of 0 and 1, in %", heads, rows)


def values(many: Many) -> str:
    found = [*pairs.equal_rates(many.resampled), *pairs.clustered_rates(many.resampled)]
    rows = [[one.setting, str(one.n), percent(one.share), percent(two.share)] for one, two in found]
    title = "Equal runs, other tests: false findings at 5 % and coverage of the difference's interval, in %"
    return drawn(title, ["", "n", "false findings", "coverage"], rows)


def families(many: Many) -> str:
    effect = pairs.shown_effect(200, 0.3)
    found = {
        "any false finding among 10 tasks after Holm": pairs.any_finding(10, 100, "holm", many.plain),
        "equivalent within 5 points, truth 5 points apart": pairs.margin_rate(300, 0.1, 0.05, many.plain),
        "equivalent within 5 points, truth 0 apart (power)": pairs.margin_rate(300, 0.1, 0.0, many.plain),
        f"difference of {100 * effect:.1f} points found, the one detectable with 80 % power": pairs.outcome_rate(
            "exact", 200, 0.3, effect, many.plain
        ),
    }
    rows = [[name, str(rate.n), percent(rate.share)] for name, rate in found.items()]
    return drawn("Many tests, margins, power, in %", ["", "n", "share"], rows)


def sequences(many: Many) -> str:
    decided = [
        ("equal runs declared different", stopping.wrong_decisions(1000, 0.1, many.plain)),
        ("equal runs declared different", stopping.wrong_decisions(1000, 0.4, many.plain)),
        ("equal runs declared different", stopping.wrong_decisions_of_values(1000, many.plain)),
        ("the same by an ordinary test at every look", stopping.peeking_mcnemar(1000, 0.4, many.plain)),
        ("the better run found (power)", stopping.right_decisions(1000, 0.3, 0.1, many.plain)),
    ]
    rows = [[name, rate.setting, str(rate.n), percent(rate.share)] for name, rate in decided]
    looked = drawn("`--until_decided`, looking after every document, in %", ["", "setting", "n", "share"], rows)
    ends = []
    for share, error in ((0.5, 0.05), (0.9, 0.05), (0.9, 0.02)):
        found = stopping.until_error(share, error, 2000, min(_STOPPED, many.plain))
        shown = percent(found.bounds.share), percent(found.ordinary.share)
        ends.append([found.bounds.setting, f"{found.documents:.0f}", *shown])
    heads = ["", "documents evaluated", "anytime-valid bounds", "the table's interval"]
    return looked + "\n" + drawn("`--until_se`, coverage where the run stopped, in %", heads, ends)


SECTIONS: dict[str, Callable[[Many], str]] = {
    section.__name__: section
    for section in (
        shares, intervals, means, clusters, groups, draws, samples, ratios, resampled,
        differences, measured, outcomes, values, asked, families, sequences,
    )
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.levels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS, help="simulated evaluations of a setting")
    parser.add_argument("--resampled", type=int, default=RESAMPLED, help="the same for settings with the bootstrap")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="tables to print")
    chosen = parser.parse_args(arguments)
    for name in chosen.only:
        print(SECTIONS[name](Many(chosen.evaluations, chosen.resampled)), flush=True)


if __name__ == "__main__":
    main()
