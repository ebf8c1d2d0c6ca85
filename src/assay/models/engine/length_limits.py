"""Lengths from which on a model treats a text by its place in a batch, which no short probe can show.

Takes a configuration; gives the most tokens of a text that may stand beside others, and why. Longer texts are read and
written alone, where the model does what it was made for. Lengths that rotary positions depend on are in `reader.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.models.loading.network import config_value


@dataclass(frozen=True, slots=True)
class LengthRule:
    """A setting that names such a length.

    Attributes:
        fields: settings whose product is the length.
        reason: what the model does with longer texts.
        switch: setting that turns it on; None when it is always on.
    """

    fields: tuple[str, ...]
    reason: str
    switch: str | None = None

    def length(self, config: Any) -> int | None:
        """The length; None where the model has no such rule."""
        if self.switch is not None and not config_value(config, self.switch):
            return None
        length = 1
        for name in self.fields:
            value = config_value(config, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 1:
                return None
            length *= int(value)
        return length


# Found by going through the configurations of transformers 5.22; a new one needs a line here (docs/engine.md).
RULES = (
    # Llama 4: layers without rotary positions scale queries by the place in the row, padding and neighbours included.
    LengthRule(("floor_scale",), "attention is scaled by the place in the row", "attn_temperature_tuning"),
    # DeepSeek-V3.2 and V4, GLM-5, A.X-K2, HY-V4: the best keys are picked by score, and tied scores by their place.
    LengthRule(("index_topk",), "only the best-scored tokens are attended to"),
    # MiniMax-M3: the same with blocks of keys, counted from the start of the row.
    LengthRule(("index_topk_blocks", "index_block_size"), "only the best-scored blocks are attended to"),
    # Doge: keys are left out when the row, with its padding, is longer.
    LengthRule(("keep_window_size",), "tokens are left out by the length of the row"),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most tokens of a text that may stand beside others (a pack has no more either), and why no longer ones."""

    tokens: int
    reason: str


def find_limit(config: Any, rules: Sequence[LengthRule] = RULES) -> Limit | None:
    """The limit below the shortest length that a configuration names; None when it names none."""
    found = [Limit(length - 1, rule.reason) for rule in rules if (length := rule.length(config)) is not None]
    return min(found, key=lambda limit: limit.tokens, default=None)


# Settings of models into which padding on the left leaks at lengths that are not probed.
LEAKS = {"compress_rates": "it compresses blocks of tokens, counted from the start of the row"}  # DeepSeek-V4


def find_leak(config: Any) -> str | None:
    """Why prompts of different lengths may not be padded on the left, as far as a configuration tells; else None."""
    return next((reason for name, reason in LEAKS.items() if config_value(config, name)), None)
