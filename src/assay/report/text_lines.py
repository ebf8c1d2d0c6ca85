"""One line per text task: its perplexities and the counts behind them.

Takes a run; gives headings and rows of text, none for a run without tasks of whole texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.results import GroupResult, RunResult
from assay.core.scores import MetricResult, TextCounts
from assay.report.safe_names import printable
from assay.report.tables import format_number

COUNT_HEADINGS = ("Texts", "Documents", "Windows", "Tokens", "Words", "Bytes")
# Metric → its heading. Metrics per document are in the table of all metrics.
_SHORT = {
    "token_perplexity": "Per token",
    "word_perplexity": "Per word",
    "byte_perplexity": "Per byte",
    "bits_per_byte": "Bits/byte",
    "nats_per_token": "Nats/token",
}


def text_table(result: RunResult) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: pooled groups first, each above its members, then other tasks."""
    lines = list(_lines(result))
    reported = {metric.metric for _, _, metrics in lines for metric in metrics}
    shown = [name for name in _SHORT if name in reported]
    rows = [[name, *_counts(counts), *_values(metrics, shown)] for name, counts, metrics in lines]
    return [*COUNT_HEADINGS, *(_SHORT[name] for name in shown)], rows


def _lines(result: RunResult) -> Iterator[tuple[str, TextCounts, Sequence[MetricResult]]]:
    groups: dict[str, list[GroupResult]] = {}
    for group in result.groups:
        if group.texts is not None:
            groups.setdefault(group.leaves[0], []).append(group)
    inner = {leaf for group in result.groups if group.texts is not None for leaf in group.leaves}
    for task in result.tasks:
        if task.texts is None:
            continue
        for group in groups.get(task.name, ()):
            assert group.texts is not None
            yield printable(f"{group.spec.alias} (all)"), group.texts, group.metrics
        yield printable(("- " if task.name in inner else "") + task.card.alias), task.texts, task.metrics


def _counts(counts: TextCounts) -> list[str]:
    numbers = (counts.documents, counts.windows, counts.tokens, counts.words, counts.bytes)
    return ["–" if number is None else f"{number:,}" for number in numbers]


def _values(metrics: Sequence[MetricResult], names: Sequence[str]) -> list[str]:
    values = {metric.metric: metric.estimate.value for metric in reversed(metrics)}
    return [format_number(values.get(name)) for name in names]
