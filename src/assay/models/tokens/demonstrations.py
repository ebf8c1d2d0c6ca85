"""Demonstrations as text: each input is truncated to a token limit, as in MetaICL (Min et al. 2022).

In: a prompt and a tokenizer. Out: the text, and notes on what was truncated.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.requests import Demonstrated
from assay.models.tokens.tokenization import Tokenizer, without_surrogates

# MetaICL reserves two tokens per example for special tokens that some tokenizers add.
_RESERVED = 2

# (separator before it, input, possible continuations, limit) → the input, truncated if necessary.
Cuts = dict[tuple[str, str, tuple[str, ...], int], str]


def render_demonstrations(tokenizer: Tokenizer, prompt: Demonstrated, known: Cuts) -> tuple[str, tuple[str, ...]]:
    """A prompt as text, and notes on what was truncated.

    Args:
        tokenizer: counts the tokens.
        prompt: the prompt.
        known: cache of truncated inputs, shared by all prompts.
    """

    def cut(text: str, index: int, behind: Sequence[str]) -> str:
        # All but the first input have a separator before them, whose tokens count too.
        key = (prompt.after if index else "", text, tuple(prompt.between + output for output in behind), prompt.limit)
        if key not in known:
            known[key] = _cut(tokenizer, *key)
        return known[key]

    inputs = [text for text, _ in prompt.demonstrations]
    shown = [cut(text, index, (output,)) for index, (text, output) in enumerate(prompt.demonstrations)]
    question = cut(prompt.question, len(inputs), prompt.options)
    notes = (("demonstration_cut", shown != inputs), ("question_cut", question != prompt.question))
    return prompt.joined([*shown, question]), tuple(name for name, is_cut in notes if is_cut)


def _cut(tokenizer: Tokenizer, separator: str, text: str, behind: tuple[str, ...], limit: int) -> str:
    clean = [without_surrogates(part) for part in (separator + text, *behind)]
    ids, *others = tokenizer(clean, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
    room = max(limit - _RESERVED - max(map(len, others), default=0), 0)
    if len(ids) <= room:
        return text  # unchanged: not every tokenizer decodes to exactly its input
    # Truncation may split a multi-token character, which decodes to U+FFFD.
    kept = tokenizer.decode(ids[:room], clean_up_tokenization_spaces=False).rstrip("\ufffd") if room else ""
    return "" if separator.startswith(kept) else kept.removeprefix(separator)
