"""The token ids that a causal model must process for a request, by lm-eval's rules and the tokenizer alone.

Independent of Assay's encoder, so that the tree's minimum does not depend on the measured code; if lm-eval runs too,
the same figures from its own ids are compared with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from bench.engine.tree import Read, scored_read

# Default maximum of new tokens in both tools.
MAX_TOKENS = 256


class Reader:
    """Encodes the rows of a workload's file.

    Args:
        model: the model's arguments: `pretrained`, and perhaps `add_bos_token` and `prefix_token_id`.
        most: maximum number of tokens of one input.
    """

    def __init__(self, model: Mapping[str, Any], most: int) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model["pretrained"])
        special = model.get("add_bos_token")
        options = {} if special is None else {"add_special_tokens": special}
        prefix = model.get("prefix_token_id")
        self._prefix = tokenizer.bos_token_id if prefix is None else prefix
        self._most = most
        self._encode = cache(lambda text: tokenizer.encode(text, **options))

    def reads(self, row: Mapping[str, Any]) -> Iterator[Read]:
        """The ids of a request; for a generation, of its prompt."""
        if row["kind"] == "generation":
            most = MAX_TOKENS if row["max_tokens"] is None else row["max_tokens"]
            ids = tuple(self._encode(row["prompt"])[-(self._most - most) :])
            yield Read(ids, len(ids) - 1)
        elif row["kind"] == "loglikelihood":
            yield self._pair(row["context"], row["continuation"])
        else:
            yield from self._windows(self._encode(row["text"]))

    def _pair(self, text: str, continuation: str) -> Read:
        context = text.rstrip()
        whole = self._encode(text + continuation)
        before = self._encode(context) if context else []
        return scored_read(before or [self._prefix], whole[len(before) :], self._most)

    def _windows(self, ids: list[int]) -> Iterator[Read]:
        """Every token is scored once; a later window is filled up with context to the full length."""
        for start in range(0, len(ids), self._most):
            end = min(start + self._most, len(ids))
            context = ids[max(end - self._most - 1, 0) : start]
            yield scored_read(context if start else [self._prefix], ids[start:end], self._most)
