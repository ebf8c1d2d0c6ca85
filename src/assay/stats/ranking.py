"""Who is ahead: mean win rates, and ranges of ranks that overlap as long as the data cannot tell models apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from string import ascii_lowercase


@dataclass(frozen=True, slots=True)
class RankRange:
    """The ranks that the data allows a system. Those of two that cannot be told apart overlap.

    Attributes:
        first: the best: 1 + how many systems are better beyond chance.
        last: the worst: all systems less those that are worse beyond chance.
    """

    first: int
    last: int

    @property
    def text(self) -> str:
        """`2`, or `1–3` where the data allows several."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def overlaps(self, other: RankRange) -> bool:
        """Whether some rank is allowed to both."""
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
        columns: column → model → score, more being better; models without one are left out of the column, and a
            column of one model says nothing.
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
    """From 1 + how many models are better beyond chance, to all models less those that are worse beyond chance.

    One number per model would not do: a model between two others is tied with both, though these are told apart.

    Args:
        models: all models.
        separated: pairs that the data can tell apart, the better one first.
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
    """A compact letter display: two models share a letter exactly when the data cannot tell them apart.

    Piepho (2004), Journal of Computational and Graphical Statistics 13: a letter stands for models of which no two are
    told apart, as many as there can be. Models in one order need no more letters than there are models; tests that
    contradict each other may need thousands, which no one can read: all models are then without any.

    Args:
        models: all models, best first: the first has the letter a.
        separated: pairs that the data can tell apart, in either order.
    """
    apart = {*separated, *((other, one) for one, other in separated)}
    groups: list[frozenset[str]] = []
    for place, model in enumerate(models):
        tied = {other for other in models[:place] if (model, other) not in apart}
        within = {group & tied for group in groups} or {frozenset()}
        widest = [own for own in within if not any(own < other for other in within)]
        groups = [group for group in groups if not group <= tied] + [own | {model} for own in widest]
        if len(groups) > max(len(ascii_lowercase), len(models)):  # with every model more they can only become more
            return dict.fromkeys(models, "")
    places = {model: place for place, model in enumerate(models)}
    groups.sort(key=lambda group: sorted(places[model] for model in group))
    named = [(_letter(place), group) for place, group in enumerate(groups)]
    return {model: "".join(letter for letter, group in named if model in group) for model in models}


def _letter(place: int) -> str:
    more, first = divmod(place, len(ascii_lowercase))
    return ascii_lowercase[first] + "'" * more
