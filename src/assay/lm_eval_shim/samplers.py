"""`lm_eval.api.samplers`: few-shot samplers, for task code that defines its own."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


class ContextSampler:
    """Draws examples at random. Subclasses override `sample`."""

    def __init__(self, df: Sequence[Row] | None = None, *, rnd: int | None = None, **settings: Any) -> None:
        self.df = df or []
        self.rnd = random.Random(rnd)

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Reseeds the random generator."""
        self.rnd = random.Random(rnd)
        return self

    def fewshot_docs(self) -> Sequence[Row]:
        """The rows to draw from."""
        return self.df

    def sample(self, n: int, eval_doc: Row | None = None, **settings: Any) -> Sequence[Row]:
        """n rows, without copies of the evaluated document if it is given."""
        pool = list(self.fewshot_docs())
        if eval_doc is None:
            return self.rnd.sample(pool, n)
        kept = [row for row in self.rnd.sample(pool, n + 1) if row != eval_doc]
        if len(kept) < n:
            kept = self.rnd.sample([row for row in pool if row != eval_doc], n)
        return kept[:n]


class FirstNSampler(ContextSampler):
    """Takes the first rows."""

    def sample(self, n: int, eval_doc: Row | None = None, **settings: Any) -> Sequence[Row]:
        return [row for row in self.fewshot_docs() if eval_doc is None or row != eval_doc][:n]
