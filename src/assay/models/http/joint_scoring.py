"""Which requests score some texts: one for each, or one for all that add a single token to the same context.

In: encoded texts and a dialect. Out: exchanges, and the scores of every text.

A choice of one token, such as the letter of an answer, needs no log-probabilities of the prompt. A server that reports
those of given next tokens answers all choices of a question in one request, and can read its prefix cache, which vLLM
does not do for log-probabilities of prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from assay.core.responses import Failure
from assay.models.http.exchange import Dialect, Exchange, ScoresNextTokens, TokenScore
from assay.models.tokens.tokenization import EncodedText

Scores = list[TokenScore]


class JointScoring:
    """Requests for texts, in the order of the texts.

    Args:
        texts: the texts.
        dialect: how the server is asked.
        joins: whether next tokens may be scored together, if the dialect can.
    """

    def __init__(self, texts: Iterable[EncodedText], dialect: Dialect, joins: bool) -> None:
        self._dialect = dialect
        self._joined = dialect if joins and isinstance(dialect, ScoresNextTokens) else None
        self._groups = [[text] for text in texts] if self._joined is None else _groups(texts, self._joined)

    def exchanges(self) -> Iterator[tuple[int, Exchange[list[Scores]]]]:
        """The requests, numbered."""
        return ((number, self._exchange(group)) for number, group in enumerate(self._groups))

    def scores(self, number: int, found: list[Scores] | Failure) -> Iterator[tuple[EncodedText, Scores | Failure]]:
        """What the answer to a request says of each of its texts."""
        group = self._groups[number]
        yield from zip(group, [found] * len(group) if isinstance(found, Failure) else found, strict=True)

    def _exchange(self, group: Sequence[EncodedText]) -> Exchange[list[Scores]]:
        first = group[0]
        if self._joined is None or first.scored != 1:
            exchange, places = self._dialect.score(first.ids, first.scored), [slice(None)]
        else:
            # Two texts may be equal as token ids, for example where a long context was cut.
            candidates = list(dict.fromkeys(text.ids[-1] for text in group))
            exchange = self._joined.next_tokens(first.ids[:-1], candidates)
            found = [candidates.index(text.ids[-1]) for text in group]
            places = [slice(place, place + 1) for place in found]
        return Exchange(exchange.path, exchange.body, partial(_read, exchange, places))


def _groups(texts: Iterable[EncodedText], dialect: ScoresNextTokens) -> list[list[EncodedText]]:
    groups: list[list[EncodedText]] = []
    latest: dict[tuple[int, ...], list[EncodedText]] = {}
    for text in texts:
        context = tuple(text.ids[:-1])
        group = latest.get(context, []) if text.scored == 1 else []
        if not 0 < len(group) < dialect.most_candidates:
            group = []
            groups.append(group)
            if text.scored == 1:
                latest[context] = group
        group.append(text)
    return groups


def _read(exchange: Exchange[Scores], places: Sequence[slice], data: Mapping[str, Any]) -> list[Scores] | Failure:
    found = exchange.read(data)
    return found if isinstance(found, Failure) else [found[place] for place in places]
