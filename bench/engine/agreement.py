"""Agreement of two engines: log-likelihoods per scored token, greedy flags, choices, texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# lm-eval's own error: torch's float32 log_softmax is off by about 1.6e-5 per token, always to one side.
TOLERANCE = 2e-5
SHOWN = 40  # characters of a text that differs

Answers = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two lists of answers compare.

    Attributes:
        compared: how many answers.
        worst: largest difference per scored token; None if texts are compared.
        beyond: log-likelihoods further apart than the tolerance.
        greedy: answers whose greedy flags differ.
        choices: documents whose likeliest choice differs.
        texts: positions and beginnings of texts that differ.
    """

    compared: int
    worst: float | None
    beyond: int
    greedy: int
    choices: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return not (self.beyond or self.greedy or self.choices or self.texts)

    def faults(self) -> list[str]:
        """What differs, one line each."""
        found = [f"{self.beyond} log-likelihoods differ by more than {TOLERANCE:g} a token"] if self.beyond else []
        found += [f"{self.greedy} greedy flags differ"] if self.greedy else []
        return [*found, *self.choices, *self.texts]


def compare(documents: Sequence[int], ours: Answers, theirs: Answers) -> Agreement:
    """Compares answer by answer; `documents` has the document of each. The reference may have answered fewer."""
    pairs = list(zip(ours, theirs, strict=False))
    scored = [(one, other) for one, other in pairs if "total" in one]
    far = [abs(one["total"] - other["total"]) / max(one["tokens"], 1) for one, other in scored]
    return Agreement(
        compared=len(pairs),
        worst=max(far, default=None),
        # Not `>`: NaN is a disagreement.
        beyond=sum(not distance <= TOLERANCE for distance in far),
        greedy=sum(one["is_greedy"] != other.get("is_greedy", one["is_greedy"]) for one, other in scored),
        choices=tuple(_choices(documents, pairs)),
        texts=tuple(_texts(documents, pairs)),
    )


def _choices(documents: Sequence[int], pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Documents with several scored answers whose best one differs, and its lead."""
    grouped: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for document, (one, other) in zip(documents, pairs, strict=False):
        if "total" in one:
            grouped[document].append((one["total"], other["total"]))
    found = []
    for document, totals in grouped.items():
        best = [max(range(len(totals)), key=lambda place: totals[place][side]) for side in (0, 1)]
        if best[0] != best[1]:
            gap = totals[best[0]][0] - totals[best[1]][0]
            found.append(f"document {document}: choice {best[0]} (lm-eval: {best[1]}), ahead by {gap:.2g}")
    return found


def _texts(documents: Sequence[int], pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    found = []
    for document, (one, other) in zip(documents, pairs, strict=False):
        if "text" in one and one["text"] != other["text"]:
            place = next((i for i, (a, b) in enumerate(zip(one["text"], other["text"], strict=False)) if a != b), None)
            start = min(len(one["text"]), len(other["text"])) if place is None else place
            seen = [text["text"][max(start - 10, 0) : start + SHOWN] for text in (one, other)]
            found.append(f"document {document}: from character {start} {seen[0]!r}, lm-eval {seen[1]!r}")
    return found
