"""Per-document values of a metric: the vocabulary that scoring, the store and paired tests share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

# What a document brings to a metric: a number, two (a sum and its weight; the right label and the picked one), or three
# (confidence, hit, the share of documents to answer).
Label = Union[float, str]
Value = Union[float, tuple[Label, Label], tuple[float, float, float]]
# An aggregation that is a function of the task's own.
CUSTOM = "custom"
# That of answers which are recorded and not scored.
BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class DocumentValues:
    """The value of every scored document of a task, under one metric and pipeline.

    Attributes:
        aggregation: how the values become one number, by name; `custom` for a function of the task's own.
        documents: places in the evaluated split.
        values: one per document; NaN where the metric has none.
        clusters: the cluster of each document; None where none are known.
    """

    task: str
    metric: str
    filter: str
    aggregation: str
    documents: Sequence[int]
    values: Sequence[Value]
    clusters: Sequence[str] | None = None
