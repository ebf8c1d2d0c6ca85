"""The figures of measured workloads, as a table for people and as JSON.

In: measured workloads, the machine's rate, the model's shape. Out: rows, lines of text, a verdict for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.engine.rounds import Measured, Timing
from bench.engine.shape import Shape

# Tokens that a scoring workload may forward, as a multiple of the tree's minimum.
MOST_TOKENS = 1.02


@dataclass(frozen=True, slots=True)
class Row:
    """One workload's figures; seconds are medians, and None means not measured or without meaning."""

    workload: str
    documents: int
    requests: int
    seconds: float
    repeats: int
    lm_eval_seconds: float | None
    lm_eval_batch: str | None
    lm_eval_repeats: int
    is_extrapolated: bool
    tokens: int
    lm_eval_tokens: int | None
    tree_tokens: int
    limit_share: float | None
    ratio: float | None
    lowest_ratio: float | None
    highest_ratio: float | None
    foreign: float
    lm_eval_foreign: float | None
    worst: float | None
    verdict: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def make_row(found: Measured, shape: Shape, gflops: float) -> Row:
    """The figures of a workload."""
    built, ratios, reference = found.built, found.ratios(), found.reference
    tree = tree_tokens(found)
    seconds = median(run.seconds for run in found.ours)
    is_text = built.kind == "generation"
    faults = _faults(found, tree)
    return Row(
        workload=built.workload.name,
        documents=built.documents,
        requests=built.requests,
        seconds=seconds,
        repeats=len(found.ours),
        lm_eval_seconds=found.scale * median(run.seconds for run in reference) if reference else None,
        lm_eval_batch=found.best,
        lm_eval_repeats=len(reference),
        is_extrapolated=found.scale != 1.0,
        tokens=found.ours[-1].tokens,
        lm_eval_tokens=reference[0].tokens if reference else None,
        tree_tokens=tree,
        # Decoding token by token is bound by memory, not by matrix products.
        limit_share=None if is_text else shape.limit_seconds(found.least, gflops) / seconds,
        ratio=median(ratios) if ratios else None,
        lowest_ratio=min(ratios, default=None),
        highest_ratio=max(ratios, default=None),
        foreign=_foreign(found.ours),
        lm_eval_foreign=_foreign(reference) if reference else None,
        worst=found.agreement.worst if found.agreement else None,
        verdict=_verdict(found, ratios, faults),
        faults=tuple(faults),
        notes=(*found.notes, *_other_batches(found), *_with_encoding(found)),
    )


def tree_tokens(found: Measured) -> int:
    """The tree's minimum; for texts, the prompts' tree and every generated token but the last, never an input."""
    if found.built.kind != "generation":
        return found.least.tokens
    written = [int(answer["tokens"]) for answer in found.ours[0].answer["answers"]]
    return found.least.tokens + sum(max(count - 1, 0) for count in written)


def _foreign(runs: Sequence[Timing]) -> float:
    return median(run.foreign for run in runs)


def _faults(found: Measured, tree: int) -> list[str]:
    faults = found.agreement.faults() if found.agreement else []
    tokens = found.ours[-1].tokens
    if found.built.kind != "generation" and tokens > MOST_TOKENS * tree:
        faults.append(
            f"{tokens:,} tokens forwarded, {tokens / tree:.3f} times the tree's minimum (at most {MOST_TOKENS})"
        )
    return faults


def _verdict(found: Measured, ratios: Sequence[float], faults: Sequence[str]) -> str:
    """`aim` or `pass` if the bar is reached and nothing is wrong."""
    bar = found.built.workload
    if not ratios:
        return "FAIL" if faults else "-"
    ratio = median(ratios)
    if faults or ratio < bar.at_least:
        return "FAIL" if found.built.is_full else "fail (few documents)"
    reached = "aim" if ratio >= bar.aim else "pass"
    return reached if found.built.is_full else f"{reached} (few documents)"


def _other_batches(found: Measured) -> list[str]:
    """Times of the batch sizes that were not the best, in the first round."""
    lines = []
    for batch, runs in found.theirs.items():
        first = runs[0]
        spent = first.answer["detection_seconds"]
        of_it = f", {spent:.2f} s of it for finding the batch size" if spent else ""
        if batch != found.best or of_it:
            lines.append(f"lm-eval's batch {batch}: {first.seconds:.2f} s{of_it}; {first.tokens:,} tokens")
    return lines


def _with_encoding(found: Measured) -> list[str]:
    """The ratio when encoding counts too."""
    if not found.reference:
        return []
    own = median(run.whole_seconds for run in found.ours)
    theirs = found.scale * median(run.whole_seconds for run in found.reference)
    return [f"from texts to answers: ours {own:.2f} s, lm-eval {theirs:.2f} s, ratio {theirs / own:.2f}"]


HEADER = (
    "workload", "docs", "requests", "ours s", "lm-eval s", "batch", "rounds", "tokens", "lm-eval", "tree min",
    "of min", "% limit", "ratio", "(range)", "bar/aim", "foreign", "worst/tok", "verdict",
)  # fmt: skip


def table_lines(rows: Sequence[Row], bars: dict[str, tuple[float, float]]) -> list[str]:
    """The table, and below it what is wrong and what must be known."""
    cells = [HEADER, *(_cells(row, *bars[row.workload]) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
    lines.insert(1, "-" * max(len(line) for line in lines))
    for row in rows:
        lines += [f"{row.workload}  WRONG: {fault}" for fault in row.faults]
        lines += [f"{row.workload}  {note}" for note in row.notes]
    return lines


def _aligned(line: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    last = len(line) - 1
    pairs = enumerate(zip(line, widths, strict=True))
    return [text.ljust(width) if place in (0, last) else text.rjust(width) for place, (text, width) in pairs]


def _cells(row: Row, at_least: float, aim: float) -> tuple[str, ...]:
    return (
        row.workload,
        str(row.documents),
        str(row.requests),
        f"{row.seconds:.2f}",
        _shown(row.lm_eval_seconds, ".2f") + ("*" if row.is_extrapolated else ""),
        row.lm_eval_batch or "-",
        f"{row.repeats}/{row.lm_eval_repeats}",
        f"{row.tokens:,}",
        _shown(row.lm_eval_tokens, ","),
        f"{row.tree_tokens:,}",
        f"{row.tokens / row.tree_tokens:.3f}",
        _shown(None if row.limit_share is None else 100 * row.limit_share, ".0f"),
        _shown(row.ratio, ".2f") + ("*" if row.is_extrapolated else ""),
        "-" if row.lowest_ratio is None else f"{row.lowest_ratio:.2f}..{row.highest_ratio:.2f}",
        f"{at_least:g}/{aim:g}",
        f"{row.foreign:.2f}/{_shown(row.lm_eval_foreign, '.2f')}",
        _shown(row.worst, ".1e"),
        row.verdict,
    )


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def as_json(row: Row, found: Measured) -> dict[str, Any]:
    """Every figure of a workload, each round's too, without the answers."""
    return {
        **asdict(row),
        "least": asdict(found.least),
        "ratios": found.ratios(),
        "ours": [_plain(run) for run in found.ours],
        "lm_eval": {
            batch: {number: _plain(run) for number, run in runs.items()} for batch, runs in found.theirs.items()
        },
    }


def _plain(run: Timing) -> dict[str, Any]:
    kept = {name: value for name, value in run.answer.items() if name not in ("answers", "least")}
    return {**kept, "foreign": run.foreign}
