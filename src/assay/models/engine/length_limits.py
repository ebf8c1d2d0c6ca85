"""Length limits of batching: lengths above which a model's output depends on the batch, beyond the reach of a probe.

In: a configuration. Out: the maximum length of a text that may share a batch, and the reason. Longer texts run
alone. Lengths that rotary embeddings depend on are in `forward.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.models.loading.network import config_value


@dataclass(frozen=True, slots=True)
class LengthRule:
    """A configuration setting that implies such a length.

    Attributes:
        fields: settings whose product is the length.
        reason: what the model does with longer texts.
        switch: setting that enables the rule; None if it always applies.
    """

    fields: tuple[str, ...]
    reason: str
    switch: str | None = None

    def length(self, config: Any) -> int | None:
        """The length; None if the rule does not apply."""
        if self.switch is not None and not config_value(config, self.switch):
            return None
        length = 1
        for name in self.fields:
            value = config_value(config, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 1:
                return None
            length *= int(value)
        return length


# Collected from the configurations of transformers 5.22; a new rule needs a line here (docs/engine.md).
RULES = (
    # Llama 4: layers without rotary embeddings scale queries by the index in the row, padding and other texts included.
    LengthRule(("floor_scale",), "attention is scaled by the index in the row", "attn_temperature_tuning"),
    # DeepSeek-V3.2 and V4, GLM-5, A.X-K2, HY-V4: only the top-scored keys are used, ties broken by index.
    LengthRule(("index_topk",), "only the best-scored tokens are attended to"),
    # MiniMax-M3: the same with blocks of keys, counted from the start of the row.
    LengthRule(("index_topk_blocks", "index_block_size"), "only the best-scored blocks are attended to"),
    # Doge: keys are dropped if the padded row is longer.
    LengthRule(("keep_window_size",), "tokens are dropped by the length of the row"),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """Maximum length of a text (and of a pack) that may share a batch, and the reason."""

    tokens: int
    reason: str


def find_limit(config: Any, rules: Sequence[LengthRule] = RULES) -> Limit | None:
    """The smallest limit implied by a configuration; None if there is none."""
    found = [Limit(length - 1, rule.reason) for rule in rules if (length := rule.length(config)) is not None]
    return min(found, key=lambda limit: limit.tokens, default=None)


# Settings of models in which left padding leaks at lengths that are not probed.
LEAKS = {"compress_rates": "it compresses blocks of tokens, counted from the start of the row"}  # DeepSeek-V4


def find_leak(config: Any) -> str | None:
    """Why prompts must not be left-padded, according to the configuration; else None."""
    return next((reason for name, reason in LEAKS.items() if config_value(config, name)), None)
