"""Rankings: mean win rates, rank ranges and compact letter displays, with ties where models are not separable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from string import ascii_lowercase


@dataclass(frozen=True, slots=True)
class RankRange:
    """Rank range of a system: the ranks compatible with the data. Ranges of indistinguishable systems overlap.

    Attributes:
        first: the best rank: 1 + the number of significantly better systems.
        last: the worst rank: the number of systems minus the significantly worse ones.
    """

    first: int
    last: int

    @property
    def text(self) -> str:
        """`2`, or `1–3` for several ranks."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def overlaps(self, other: RankRange) -> bool:
        """Whether the two ranges overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Average:
    """A mean over columns, each counted once, and the labels of these columns; None without one."""

    value: float | None
    tasks: tuple[str, ...]


def win_rates(models: Sequence[str], columns: Mapping[str, Mapping[str, float]]) -> dict[str, Average]:
    """HELM's mean win rate: per column the share of the other models that a model beats, ties half, then the mean.

    Args:
        models: all models.
        columns: column → model → score, higher is better; models without a score are left out of the column, and
            columns with a single model are ignored.
    """
    shares: dict[str, dict[str, float]] = {model: {} for model in models}
    for name, column in columns.items():
        for model, value in column.items():
            others = [other for rival, other in column.items() if rival != model]
            if others:
                won = sum(1.0 if value > other else 0.5 if value == other else 0.0 for other in others)
                shares[model][name] = won / len(others)
    return {model: Average(sum(own.values()) / len(own) if own else None, tuple(own)) for model, own in shares.items()}


def rank_ranges(models: Sequence[str], separated: Collection[tuple[str, str]]) -> dict[str, RankRange]:
    """Rank range of each model: from 1 + significantly better models to all models minus significantly worse ones.

    A single rank would not do: a model between two others can be tied with both although these are separable.

    Args:
        models: all models.
        separated: pairs with a significant difference, the better one first.
    """
    pairs = set(separated)
    first = {model: 1 + sum(worse == model for _, worse in pairs) for model in models}
    last = {model: len(models) - sum(better == model for better, _ in pairs) for model in models}
    # Tests need not be transitive: with a better than b, b than c, and a and c tied, c could begin behind a's end.
    for one, other in permutations(models, 2):
        if (one, other) not in pairs and (other, one) not in pairs:
            last[one] = max(last[one], first[other])
    return {model: RankRange(first[model], last[model]) for model in models}


def letters(models: Sequence[str], separated: Collection[tuple[str, str]]) -> dict[str, str]:
    """Compact letter display: two models share a letter exactly when their difference is not significant.

    Piepho (2004), Journal of Computational and Graphical Statistics 13: a letter marks a maximal set of models without
    significant differences. Ordered models need at most as many letters as there are models; contradictory tests may
    need thousands, which is unreadable: then no model gets any letter.

    Args:
        models: all models, best first: the first has the letter a.
        separated: pairs with a significant difference, in either order.
    """
    apart = {*separated, *((other, one) for one, other in separated)}
    groups: list[frozenset[str]] = []
    for index, model in enumerate(models):
        tied = {other for other in models[:index] if (model, other) not in apart}
        within = {group & tied for group in groups} or {frozenset()}
        widest = [own for own in within if not any(own < other for other in within)]
        groups = [group for group in groups if not group <= tied] + [own | {model} for own in widest]
        if len(groups) > max(len(ascii_lowercase), len(models)):  # further models can only add more
            return dict.fromkeys(models, "")
    order = {model: index for index, model in enumerate(models)}
    groups.sort(key=lambda group: sorted(order[model] for model in group))
    named = [(_letter(index), group) for index, group in enumerate(groups)]
    return {model: "".join(letter for letter, group in named if model in group) for model in models}


def _letter(index: int) -> str:
    more, first = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[first] + "'" * more
