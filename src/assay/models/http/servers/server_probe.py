"""Proves that a server's log-likelihoods are right before any is used.

In: a dialect, a function that sends exchanges, and the token ids of a fixed text. Out: the reasons against the dialect,
none if it passes. A fixed prompt is continued greedily, token by token; scored as one text, the same tokens must get
the same log-probabilities and be greedy. A server that ignores echo, counts other tokens, shifts by one, answers
without the continuation or mixes up the prompts of one request does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.responses import Failure
from assay.models.http.exchange import Dialect, Exchange, ScoresNextTokens, Step, TokenScore

TEXT = "Seven grey owls, painted on"
_MOST_IDS = 6
_STEPS = 3
# Failures that say nothing about a dialect: the server must be asked again later.
_TRANSPORT = frozenset({"unreachable", "disconnected", "timeout", "cut", "rate_limited", "overloaded"})

Ask = Callable[[Exchange[Any]], Any]
# A token's text → its id, if it is a single token.
FindId = Callable[[str], "int | None"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of one server.

    Attributes:
        ask: sends an exchange.
        ids: token ids of `TEXT`, as prompts begin.
        find_id: the id of a token's text, for servers that do not report ids.
        tolerance: largest accepted difference in nats.
    """

    ask: Ask
    ids: Sequence[int]
    find_id: FindId
    tolerance: float = 0.01

    def reasons_against(self, dialect: Dialect) -> list[str]:
        """Why a dialect must not be used for log-likelihoods; empty if it may be."""
        prefix = list(self.ids[:_MOST_IDS])
        if len(prefix) < 2:
            return [f"the tokenizer makes {len(prefix)} tokens of the probe's text; expected at least 2"]
        try:
            steps = list(self._greedy_steps(dialect, prefix))
            if not steps:
                return ["the server does not say which tokens it generates, so nothing can be compared"]
            whole = [*prefix, *(token_id for token_id, _ in steps)]
            scores = self._score(dialect, whole)
            values = [step.logprob for _, step in steps]
            return [
                *self._faults_of_scores(scores, values, len(prefix) - 1),
                *self._faults_of_another_token(dialect, whole, scores),
                *self._faults_of_order(dialect, whole, scores),
            ]
        except _Refused as refusal:
            return [str(refusal)]

    def scores(self, dialect: Dialect) -> list[TokenScore]:
        """The scores of the fixed text by a dialect that passed."""
        return self._score(dialect, list(self.ids[:_MOST_IDS]))

    def reasons_against_joining(self, dialect: Dialect) -> list[str]:
        """Why a dialect that has passed must not score several next tokens in one request; empty if it may."""
        if not isinstance(dialect, ScoresNextTokens):
            return []
        prefix = list(self.ids[:_MOST_IDS])
        try:
            likely, _ = next(self._greedy_steps(dialect, prefix))
            candidates = [next(token_id for token_id in prefix if token_id != likely), likely]
            expected = [self._score(dialect, [*prefix, token_id])[-1] for token_id in candidates]
            found: list[TokenScore] = self._sent(dialect.next_tokens(prefix, candidates))
        except _Refused as refusal:
            return [str(refusal)]
        worst = max(abs(one.logprob - other.logprob) for one, other in zip(found, expected, strict=True))
        if not worst <= self.tolerance:
            return [f"their log-probabilities differ by up to {worst:.2g} nats from those of single requests"]
        if [score.is_greedy for score in found] != [False, True]:
            return ["the server does not say which token is the most likely one"]
        return []

    def _greedy_steps(self, dialect: Dialect, prefix: Sequence[int]) -> Iterator[tuple[int, Step]]:
        """The most likely continuation, token by token."""
        ids = list(prefix)
        for _ in range(_STEPS):
            step: Step = self._sent(dialect.step(ids))
            token_id = self.find_id(step.text) if step.token_id is None else step.token_id
            if token_id is None:
                return
            yield token_id, step
            ids.append(token_id)

    def _faults_of_scores(self, scores: Sequence[TokenScore], values: Sequence[float], given: int) -> Iterator[str]:
        """Differences between scoring and stepwise generation; `given` scored tokens are of the fixed text."""
        if all(score.logprob == 0 for score in scores):
            yield "all log-probabilities are 0: they are not computed"
            return
        generated = scores[given:]
        differences = [abs(score.logprob - value) for score, value in zip(generated, values, strict=True)]
        if not max(differences) <= self.tolerance:
            yield (
                f"scored as a text, greedily generated tokens have other log-probabilities, by up to "
                f"{max(differences):.2g} nats (accepted: {self.tolerance:g}): shifted by one, or of other tokens"
            )
        elif any(score.is_greedy is False for score in generated):
            yield "scored as a text, greedily generated tokens are not the most likely ones"

    def _faults_of_another_token(
        self, dialect: Dialect, whole: Sequence[int], scores: Sequence[TokenScore]
    ) -> Iterator[str]:
        """With another last token, its score must change, and no other."""
        # A word within the text rather than BOS or its first word: read as text, it must give the same tokens.
        other = next((token_id for token_id in (*whole[2:], *whole[:2]) if token_id != whole[-1]), None)
        if other is None:
            return
        changed = self._score(dialect, [*whole[:-1], other])
        drift = max((abs(a.logprob - b.logprob) for a, b in zip(changed[:-1], scores[:-1], strict=True)), default=0.0)
        if not drift <= self.tolerance:
            yield f"the same tokens have log-probabilities that differ by {drift:.2g} nats between two requests"
        if changed[-1].logprob > scores[-1].logprob + self.tolerance:
            yield "another token than the greedy one has a higher log-probability"
        elif changed[-1].logprob == scores[-1].logprob and changed[-1].is_greedy:
            yield "another continuation has the same log-probability: the continuation is not scored"

    def _faults_of_order(self, dialect: Dialect, whole: Sequence[int], scores: Sequence[TokenScore]) -> Iterator[str]:
        """Two prompts in one request must get their own answers, in their order or by their index."""
        rows = [list(whole[:-1]), list(whole)]
        exchange = dialect.batch(rows)
        if exchange is None:
            return
        found = self.ask(exchange)
        if isinstance(found, Failure):
            if found.kind in ("rejected", "too_long"):
                return  # a server without several prompts per request; each request carries one
            yield f"two prompts in one request: {_checked(found).message}"
            return
        for row, single in zip(found, (scores[:-1], scores), strict=True):
            if any(abs(a.logprob - b.logprob) > self.tolerance for a, b in zip(row, single, strict=True)):
                yield "two prompts in one request got each other's answers, or other ones than alone"
                return

    def _score(self, dialect: Dialect, ids: Sequence[int]) -> list[TokenScore]:
        scores: list[TokenScore] = self._sent(dialect.score(ids, len(ids) - 1))
        if len(scores) != len(ids) - 1 or any(math.isnan(score.logprob) for score in scores):
            raise _Refused(f"{len(scores)} tokens are scored; expected {len(ids) - 1}")
        return scores

    def _sent(self, exchange: Exchange[Any]) -> Any:
        found = self.ask(exchange)
        if isinstance(found, Failure):
            raise _Refused(_checked(found).message)
        return found


class _Refused(Exception):
    """A server that does not answer what the dialect needs."""


def _checked(failure: Failure) -> Failure:
    """A failure that speaks against a dialect; raises for one that says nothing about it."""
    if failure.kind in _TRANSPORT:
        advice = "Run the command again when the server answers"
        raise ModelError(Fault("probing the server", failure.message, next=advice))
    return failure
