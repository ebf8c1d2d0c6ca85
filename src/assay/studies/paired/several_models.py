"""Shared parts of studies of several models: paired documents, accuracy of random guessing, notices by model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from assay.core.plural import plural
from assay.core.results import RunResult
from assay.core.scores import DocumentValues
from assay.studies.paired.matching import SystemEntry
from assay.studies.paired.paired_values import Comparison, OverallScore, PairedScore


class EntryFactory:
    """Makes entries in which documents with the same name have the same number.

    Args:
        task: the task of the entries; with the metric and its pipeline.
        numbers: document → its number, extended by each entry; shared by columns whose documents may be the same.
    """

    def __init__(self, task: str, metric: str, filter: str = "none", numbers: dict[str, int] | None = None) -> None:
        self._head = (task, metric, filter, "mean")
        self._numbers: dict[str, int] = {} if numbers is None else numbers

    def entry(
        self, model: str, documents: Sequence[str], values: Sequence[float], clusters: Sequence[str] | None
    ) -> SystemEntry:
        """A model's documents, their values and the cluster of each."""
        places = [self._numbers.setdefault(name, len(self._numbers)) for name in documents]
        return SystemEntry(model, DocumentValues(*self._head, places, values, clusters))


def to_comparison(pair: PairedScore | OverallScore, task: str, cell: str) -> Comparison:
    """A pair in the form that a matrix or study reports: first minus second."""
    gap = pair.difference
    value, low, high = (None if end is None else -end for end in (gap.value, gap.high, gap.low))
    p, adjusted = (1.0 if found is None else found for found in (pair.p, pair.adjusted))
    return Comparison(
        task=task,
        cell=cell,
        first=pair.first,
        second=pair.second,
        difference=value,
        low=low,
        high=high,
        p=p,
        adjusted=adjusted,
        test=pair.test,
        n=gap.n,
        clusters=gap.clusters,
        level=gap.level,
    )


def random_accuracy(choices: Iterable[tuple[Collection[int], int]]) -> float | None:
    """Accuracy of random guessing; None without documents.

    Args:
        choices: per document, the indices of its right choices and its number of choices.
    """
    shares = []
    for right, size in choices:
        shares.append(len({place for place in right if 0 <= place < size}) / size if size else 0.0)
    return sum(shares) / len(shares) if shares else None


def run_notices(result: RunResult) -> Iterator[str]:
    """The notices of a run of one of several models, including its failures."""
    yield from result.notices
    for kind, (count, example) in result.failures.items():
        yield f"{plural(count, 'request')} failed ({kind}: {example})"
    for problem in result.problems:
        yield f"not scored: {problem.text}"


def named_notices(notices_by_model: Mapping[str, Iterable[str]]) -> list[str]:
    """Every notice once, with the models that it is about.

    Args:
        notices_by_model: model → the notices of its run; includes models without notices.
    """
    about: dict[str, list[str]] = {}
    for label, texts in notices_by_model.items():
        for text in dict.fromkeys(texts):
            about.setdefault(text, []).append(label)
    return [
        f"{'all models' if len(labels) == len(notices_by_model) > 1 else ', '.join(labels)}: {text}"
        for text, labels in about.items()
    ]
