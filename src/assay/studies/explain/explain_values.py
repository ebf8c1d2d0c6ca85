"""Values of an explanation: two scores, and the differences found between the runs behind them."""

from __future__ import annotations

from dataclasses import dataclass

from assay.studies.paired.paired_values import Score

# Kinds of causes, in the order in which they act.
MODEL, DATASET, DEFINITION, EXAMPLES, PROMPTS = "model", "dataset", "definition", "examples", "prompts"
TOKENS, TRUNCATION, NOTES, NUMERICS = "tokens", "truncation", "notes", "numerics"
EXTRACTION, NORMALISATION, ENVIRONMENT, RECORD = "extraction", "normalisation", "environment", "record"


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a difference.

    Attributes:
        kind: its kind, see above.
        text: what differs, in one sentence.
        evidence: lines that show it.
        points: its contribution to the difference, second score minus first; None if unknown.
        name: its name in a sentence; empty for the usual word of its kind.
    """

    kind: str
    text: str
    evidence: tuple[str, ...] = ()
    points: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """Two scores and the causes of their difference.

    Attributes:
        first: the first run's score.
        second: the second run's.
        difference: second minus first; None if either is missing.
        common: documents that both scored; None if they cannot be compared.
        better: of these, how many have a higher value in the second run.
        worse: how many have a lower one.
        causes: all causes, in the order in which they act.
        caveats: what could not be compared, and why.
        conclusion: the largest cause in one sentence.
    """

    first: Score
    second: Score
    difference: float | None
    common: int | None
    better: int | None
    worse: int | None
    causes: tuple[Cause, ...]
    caveats: tuple[str, ...]
    conclusion: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Two runs and their tasks, pair by pair."""

    runs: tuple[str, str]
    models: tuple[str, str]
    tasks: tuple[TaskExplanation, ...]


def points_text(points: float, first: Score, second: Score) -> str:
    """A difference in words: percentage points between two shares, plain units elsewhere."""
    values = (first.estimate.value, second.estimate.value)
    if all(value is not None and 0 <= value <= 1 for value in values):
        return f"{100 * points:+.2f} points"
    return f"{points:+.4g}"
