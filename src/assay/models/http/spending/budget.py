"""Counts what answers cost, and refuses a request that could exceed the budget before it is sent.

In: the size of each request, and the tokens that the server counted. Out: leave to send, or why not; a report.

A request in flight is counted at its upper bound: its prompt as estimated, and its limit of new tokens. When the answer
arrives, the server's count takes its place. While only requests in flight stand between a request and the budget, it
waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.money import format_dollars
from assay.models.http.spending.prices import Price
from assay.models.http.spending.usage import Size, Usage

# The server's first answers show how many tokens its prompts have; estimates follow the highest ratio.
_MOST_RATIO = 100.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may spend; None for no limit."""

    dollars: float | None = None
    tokens: int | None = None

    def __bool__(self) -> bool:
        return self.dollars is not None or self.tokens is not None


class Spending:
    """What was spent at one server, and what may be.

    Attributes:
        price: dollars per million tokens; None if unknown.
        budget: the most that may be spent.
        counted: tokens that the server counted.
        estimated: answers without a count, and requests that ended without an answer; their upper bound counts.
        refused: requests that were not sent.
    """

    def __init__(self, price: Price | None = None) -> None:
        self.price = price
        self.budget = Budget()
        self.counted = Usage()
        self.estimated = self.refused = 0
        self._dollars = self._reserved_dollars = 0.0
        self._tokens = self._reserved_tokens = 0
        self._ratio = 1.0
        self._is_measured = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def dollars(self) -> float | None:
        """Dollars spent; None without a price."""
        return None if self.price is None else self._dollars

    def limit(self, dollars: float | None, tokens: int | None, model: str) -> None:
        """Sets the budget, which counts from now on.

        Raises:
            ModelError: for a budget in dollars of a model without a known price.
        """
        if dollars is not None and self.price is None:
            advice = "Add price_in=…,price_out=… to --model_args, or use --token_budget"
            expected = "a model of OpenAI, Anthropic or Gemini at its provider, or your own prices"
            raise ModelError(Fault("--budget", f'no price is known for "{model}"', expected, advice))
        self.budget = Budget(
            None if dollars is None else dollars + self._dollars, None if tokens is None else tokens + self._tokens
        )

    async def reserve(self, size: Size) -> Size | str:
        """Leave to send a request, as the size to settle later; why it must not be sent otherwise.

        Under a budget the first request is sent alone: its count shows how far the estimates are off, such as by what a
        chat template adds.
        """
        scaled = self._scaled(size)
        while self.budget and ((over := self._excess(scaled)) or not self._is_measured):
            if not self._reserved_tokens:
                if not over:
                    break
                self.refused += 1
                return over
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
            scaled = self._scaled(size)
        return self.take(scaled)

    def reserve_now(self, size: Size) -> Size | str:
        """As `reserve`, but a request that others stand before is refused: those of a batch are sent together."""
        size = self._scaled(size)
        if self.budget and (over := self._excess(size)):
            self.refused += 1
            return over
        return self.take(size)

    def take(self, size: Size) -> Size:
        """Counts a request as sent, whatever the budget."""
        self._reserve(size, 1)
        return size

    def settle(self, size: Size, usage: Usage | None, may_be_billed: bool) -> None:
        """A request has ended.

        Args:
            size: what `reserve` returned.
            usage: the tokens that the server counted; None if it did not.
            may_be_billed: whether a request without a count may cost something.
        """
        self._reserve(size, -1)
        self._is_measured = self._is_measured or usage is not None or may_be_billed
        if usage is not None:
            self.counted += usage
            self._tokens += usage.prompt + usage.new
            self._dollars += 0.0 if self.price is None else self.price.dollars(usage)
            if size.prompt and usage.prompt > size.prompt:
                self._ratio = min(_MOST_RATIO, self._ratio * usage.prompt / size.prompt)
        elif may_be_billed and (size.prompt or size.new):
            self.estimated += 1
            self._tokens += size.prompt + size.new
            self._dollars += 0.0 if self.price is None else self.price.most(size)
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def report(self) -> Mapping[str, Any]:
        """Tokens and dollars, for the record."""
        used = self.counted
        found: dict[str, Any] = {"prompt_tokens": used.prompt, "new_tokens": used.new}
        parts = {"cached": used.cached, "cache_written": used.written, "reasoning": used.reasoning}
        found |= {f"{name}_tokens": count for name, count in parts.items() if count}
        if self.estimated:
            found["without_a_count"] = self.estimated
        if self.refused:
            found["refused"] = self.refused
        if self.price is not None:
            found |= {"dollars": round(self._dollars, 6), "price": self.price.source}
            found |= {"price_in": self.price.input, "price_out": self.price.output}
        limits = {"budget": self.budget.dollars, "token_budget": self.budget.tokens}
        return found | {name: limit for name, limit in limits.items() if limit is not None}

    def summary(self) -> str:
        """`12,000 prompt tokens (3,000 cached), 900 new (400 reasoning), $0.0123`."""
        used = self.counted
        cached = f" ({used.cached:,} cached)" if used.cached else ""
        reasoning = f" ({used.reasoning:,} reasoning)" if used.reasoning else ""
        text = f"{used.prompt:,} prompt tokens{cached}, {used.new:,} new{reasoning}"
        if self.price is not None:
            text += f", {format_dollars(self._dollars)}"
        if self.estimated:
            text += f" ({self.estimated:,} answers without a count, at their upper bound)"
        return text

    def _scaled(self, size: Size) -> Size:
        return size if self._ratio == 1.0 else replace(size, prompt=int(size.prompt * self._ratio))

    def _excess(self, size: Size) -> str:
        """Why a request could exceed the budget; empty if it cannot."""
        limit, most = self.budget.tokens, self.budget.dollars
        if limit is not None and self._tokens + self._reserved_tokens + size.prompt + size.new > limit:
            spent = f"{self._tokens + self._reserved_tokens:,} of {limit:,} tokens are spent"
            return f"{spent}, and the next request may take {size.prompt + size.new:,}. {_go_on('--token_budget')}"
        if most is not None and self.price is not None:
            cost = self.price.most(size)
            if self._dollars + self._reserved_dollars + cost > most:
                spent = f"{format_dollars(self._dollars + self._reserved_dollars)} of {format_dollars(most)} are spent"
                return f"{spent}, and the next request may cost {format_dollars(cost)}. {_go_on('--budget')}"
        return ""

    def _reserve(self, size: Size, sign: int) -> None:
        self._reserved_tokens += sign * (size.prompt + size.new)
        if self.price is not None:
            cost = self.price.most(size)
            self._reserved_dollars = max(0.0, self._reserved_dollars + sign * cost) if self._reserved_tokens else 0.0


def _go_on(option: str) -> str:
    return f"Repeat the command to spend as much again, or raise {option}: answers so far are saved"
