"""Finds every difference between two records of one task and case.

In: the reference's record and ours. Out: differences, each with the document, the field and both values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parity.records import unpack

ABSENT = "(absent)"
# A task that is a Python class makes its requests itself, so Assay has no settings on record, only the requests'.
OF_CLASS = {"made by": "the task's class"}
REQUEST_FIELDS = ("kind", "context", "continuation", "generation settings", "generation request")


@dataclass(frozen=True, slots=True)
class Near:
    """How near two numbers must be: absolutely, or relative to the larger one."""

    absolute: float = 0.0
    relative: float = 0.0


EXACT = Near()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances of numbers that depend on the model's arithmetic.

    Attributes:
        loglikelihood: of a continuation.
        rolling: of a whole text.
        scores: metrics and per-document values made of the same answers.
    """

    loglikelihood: float = 0.0
    rolling: float = 0.0
    scores: Near = Near(1e-6, 1e-6)

    def response(self, responses: list[list[Any]]) -> Near:
        """For the answers to one document; a rolling one is a bare number."""
        is_rolling = bool(responses) and isinstance(responses[0][0], float)
        return Near(self.rolling if is_rolling else self.loglikelihood)

    def derived(self, near: Near) -> Near:
        """Tolerance for values derived from answers that are only close."""
        return Near(max(near.absolute, self.scores.absolute), max(self.loglikelihood, self.scores.relative))


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. A field of the whole task has no document."""

    task: str
    case: str
    document: int | None
    field: str
    reference: Any
    ours: Any

    @property
    def texts(self) -> tuple[str, str]:
        """Both values as text, from a little before the first character that differs."""
        left, right = str(self.reference), str(self.ours)
        pairs = zip(left, right, strict=False)
        first = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
        start = max(0, first - 40)
        return _excerpt(left, start), _excerpt(right, start)


def _excerpt(text: str, start: int, length: int = 120) -> str:
    head, tail = "…" if start else "", "…" if len(text) > start + length else ""
    return head + repr(text[start : start + length]) + tail


@dataclass(slots=True)
class RecordCounts:
    """Counts of what was compared."""

    documents: int = 0
    requests: int = 0


class RecordComparison:
    """Compares the records of one task and case.

    Args:
        reference: what lm-eval found.
        ours: what Assay found.
        tolerance: for numbers.
    """

    def __init__(self, reference: dict[str, Any], ours: dict[str, Any], tolerance: Tolerance) -> None:
        self._reference = reference
        self._ours = ours
        self._tolerance = tolerance
        self.counts = RecordCounts()

    def differences(self) -> list[Difference]:
        """All of them, in the order of the documents."""
        found = [self._difference(None, "shots", self._reference["shots"], self._ours["shots"])]
        found += self._documents() if "documents" in self._reference else self._scores()
        return [item for item in found if item is not None]

    def _difference(
        self, document: int | None, field: str, reference: Any, ours: Any, near: Near = EXACT
    ) -> Difference | None:
        if is_same(reference, ours, near):
            return None
        return Difference(self._reference["task"], self._reference["case"], document, field, reference, ours)

    # Requests

    def _documents(self) -> Iterator[Difference | None]:
        theirs = {row["id"]: row for row in unpacked(self._reference["documents"])}
        ours = {row["id"]: row for row in unpacked(self._ours["documents"])}
        for place in sorted({*theirs, *ours}):
            left, right = theirs.get(place), ours.get(place)
            self.counts.documents += 1
            if left is None or right is None:
                yield self._difference(place, "document", left and "there", right and "there")
                continue
            for field in ("document", "target", "repeats"):
                yield self._difference(place, field, left[field], right[field])
            yield from self._requests(place, left["requests"], right["requests"])

    def _requests(self, place: int, theirs: list[Any], ours: list[Any]) -> Iterator[Difference | None]:
        self.counts.requests += len(theirs)
        yield self._difference(place, "number of requests", len(theirs), len(ours))
        for number, (left, right) in enumerate(zip(theirs, ours, strict=False)):
            for field, a, b in zip(REQUEST_FIELDS, left, right, strict=True):
                values = (completed(a), completed(b)) if field == "generation request" else (a, b)
                if b != OF_CLASS:
                    yield self._difference(place, f"request {number} {field}", *values)

    # What is made of the answers

    def _scores(self) -> Iterator[Difference | None]:
        theirs, ours = by_place(self._reference["samples"]), by_place(self._ours["samples"])
        self.counts.documents = len({place for place, _ in theirs})
        farthest = EXACT
        for key in sorted({*theirs, *ours}):
            left, right = theirs.get(key), ours.get(key)
            if left is None or right is None:
                yield self._difference(key[0], f"{key[1]}: sample", left and "there", right and "there")
                continue
            self.counts.requests += len(left["responses"])
            near = self._tolerance.response(left["responses"])
            if is_same(left["responses"], right["responses"], EXACT):
                near = EXACT
            yield from self._sample(key, left, right, near)
            farthest = max(farthest, near, key=lambda item: item.absolute)
        yield from self._fields(
            None, "results", self._reference["results"], self._ours["results"], self._score_nearness(farthest)
        )
        for field in ("version", "higher_is_better"):
            yield self._difference(None, field, self._reference[field], self._ours[field])

    def _score_nearness(self, near: Near) -> Near:
        """Answers that differ in the last digits give scores that do so, too."""
        return self._tolerance.scores if near == EXACT else self._tolerance.derived(near)

    def _sample(
        self, key: tuple[int, str], left: dict[str, Any], right: dict[str, Any], near: Near
    ) -> Iterator[Difference | None]:
        place, pipeline = key
        yield self._difference(place, f"{pipeline}: target", left["target"], right["target"])
        yield self._difference(place, f"{pipeline}: responses", left["responses"], right["responses"], near)
        yield self._difference(place, f"{pipeline}: filtered", left["filtered"], right["filtered"], near)
        yield from self._fields(place, pipeline, left["values"], right["values"], self._score_nearness(near))

    def _fields(
        self, place: int | None, what: str, left: Mapping[str, Any], right: Mapping[str, Any], near: Near
    ) -> Iterator[Difference | None]:
        for name in dict.fromkeys([*left, *right]):
            values = (left.get(name, ABSENT), right.get(name, ABSENT))
            yield self._difference(place, f"{what}: {name}", *values, near)


def with_their_names(ours: dict[str, Any] | None, metrics: Mapping[str, str]) -> dict[str, Any] | None:
    """Our record with lm-eval's names of metrics."""
    if not ours or not metrics or "results" not in ours:
        return ours

    def named(name: str) -> str:
        metric, comma, pipeline = name.partition(",")
        error = "_stderr" if metric.endswith("_stderr") else ""
        own = metric.removesuffix("_stderr")
        return f"{metrics.get(own, own)}{error}{comma}{pipeline}"

    def changed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {named(name): value for name, value in values.items()}

    samples = [{**sample, "values": changed(sample["values"])} for sample in ours["samples"]]
    return {
        **ours,
        "results": changed(ours["results"]),
        "higher_is_better": changed(ours["higher_is_better"]),
        "samples": samples,
    }


def unpacked(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    before: list[Any] = []
    for row in documents:
        yield {**row, "requests": unpack(row["requests"], before)}


def by_place(samples: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    return {(sample["id"], sample["filter"]): sample for sample in samples}


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Generation settings with the default temperature filled in."""
    if not settings:
        return {}
    default = 1.0 if settings.get("do_sample") else 0.0
    return {**settings, "temperature": float(settings.get("temperature", default))}


def is_same(left: Any, right: Any, near: Near) -> bool:
    """Whether two JSON values are equal. "N/A" is lm-eval's missing value; NaN equals itself."""
    left, right = (None if value == "N/A" else value for value in (left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key], near) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_same(*pair, near) for pair in zip(left, right, strict=True))
    if _is_number(left) and _is_number(right):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=near.relative, abs_tol=near.absolute)
    return type(left) is type(right) and bool(left == right)


def _is_number(value: Any) -> bool:
    """Numbers and booleans: lm-eval's metrics return both 1 and True."""
    return isinstance(value, (int, float))
