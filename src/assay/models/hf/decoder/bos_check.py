"""Detects a missing BOS token, which silently costs some models most of their score.

In: the tokenisation rules and logits of a loaded model. Out: a notice with both perplexities, or None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core.responses import Failure
from assay.models.inference.batching import Batching, BatchLimit
from assay.models.inference.likelihood import LogitsOf, score_rolling
from assay.models.loading.tokenizer import adds_bos
from assay.models.tokens.tokenization import EncodedText, TokenRules

SAMPLE_TEXT = (
    "The river rises in the hills north of the town and runs for about forty miles before it meets the sea. "
    "In spring, when the snow melts, the water is high and the meadows along its banks are often flooded. "
    "People have lived here for a long time, and most of them still work on the land."
)
# Nats per token; a judgement call: far above the effect of BOS on a model trained without it.
GAP = 0.5


def missing_bos(rules: TokenRules, logits_of: LogitsOf) -> str | None:
    """A notice if perplexity on English text is clearly lower with a BOS that the tokenizer does not add."""
    tokenizer = rules.tokenizer
    bos = tokenizer.bos_token_id
    is_settled = bos is None or bos == tokenizer.eos_token_id or rules.add_special_tokens is not None
    if is_settled or bos is None or adds_bos(tokenizer):
        return None
    ids = tokenizer([SAMPLE_TEXT], add_special_tokens=False)["input_ids"][0][: rules.max_length]
    without, with_bos = (
        _mean_loss(ids, len(ids) - 1, logits_of),
        _mean_loss([bos, *ids], len(ids) - 1, logits_of),
    )
    if without is None or with_bos is None or without - with_bos <= GAP:
        return None
    return (
        "the tokenizer adds no BOS token, but the model does much better with one: perplexity of a plain "
        f"English paragraph {math.exp(without):.1f} without, {math.exp(with_bos):.1f} with it. "
        "Set add_bos_token=true"
    )


def _mean_loss(ids: Sequence[int], scored: int, logits_of: LogitsOf) -> float | None:
    """Mean negative log-likelihood of the last `scored` ids; None if it cannot be computed."""
    if scored < 1:
        return None
    result = score_rolling([EncodedText(0, tuple(ids), scored)], logits_of, Batching(BatchLimit(rows=1)))
    return None if isinstance(result, Failure) else -result.total / scored
