"""Prices of providers' models: a dated table, or the user's own.

In: the address of an API and a model's name. Out: a `Price` that turns tokens into dollars; None if none is known.
The table is made by `scripts/make_price_table.py`. A server elsewhere may serve any model under any name, so the table
is used for the providers' own addresses only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from assay.models.http.spending.usage import Size, Usage

_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}
_MILLION = 1_000_000
OWN = "price_in and price_out"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens.

    Attributes:
        input: of the prompt.
        output: of new tokens, those of reasoning too.
        cached: of prompt tokens that are read from a cache; None for the price of others.
        written: of prompt tokens that are written to a cache; None for the price of others.
        source: where the price is from.
        long: prompts longer than so many tokens have other prices of input and output; None if all have the same.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    source: str = OWN
    long: tuple[int, float, float] | None = None

    def dollars(self, usage: Usage) -> float:
        """The price of an answer."""
        read, output = self._tier(usage.prompt)
        is_long = read != self.input
        # Prices of cached tokens in long prompts are not in the table: those of others are an upper bound.
        cached = read if self.cached is None or is_long else self.cached
        written = max(read, self.written or 0.0)
        plain = usage.prompt - usage.cached - usage.written
        return (plain * read + usage.cached * cached + usage.written * written + usage.new * output) / _MILLION

    def most(self, size: Size) -> float:
        """The highest price of a request that is not sent yet."""
        read, output = self._tier(size.prompt)
        return (size.prompt * max(read, self.written or 0.0) + size.new * output) / _MILLION

    def _tier(self, prompt: int) -> tuple[float, float]:
        if self.long is not None and prompt > self.long[0]:
            return self.long[1], self.long[2]
        return self.input, self.output


@cache
def table() -> Mapping[str, Any]:
    """The table of prices: its source, its date, and provider → model → prices."""
    text = files("assay.models.http.spending").joinpath("prices.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


def find_price(
    base_url: str, model: str, given: tuple[float, float] | None = None, is_batch: bool = False
) -> Price | None:
    """The price of a model; None if none is known.

    Args:
        base_url: address of the API.
        model: the model's name there.
        given: the user's own prices of input and output, which count for batches too.
        is_batch: whether requests are sent as a batch, which providers sell at half price.
    """
    if given is not None:
        return Price(*given)
    provider = _PROVIDERS.get(urlsplit(base_url).hostname or "")
    row = table()["prices"].get(provider, {}).get(model.removeprefix("models/"))
    if row is None:
        return None
    source = f"{table()['source']}, {table()['date']}"
    if is_batch and "batch" in row:
        read, output = row["batch"]
        return Price(read, output, source=source)
    long = tuple(row["long"]) if "long" in row else None
    return Price(row["input"], row["output"], row.get("cached"), row.get("written"), source, long)
