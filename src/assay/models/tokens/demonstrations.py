"""Demonstrations as text: each input is cut to the tokens that it may have, as MetaICL does (Min et al. 2022).

Takes a prompt and a tokenizer; gives the text, and notes of what was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.requests import Demonstrated
from assay.models.tokens.tokenization import Tokenizer, without_surrogates

# MetaICL keeps two tokens of every example for those that some tokenizers add.
_RESERVED = 2

# (separator before it, input, what may stand behind it, limit) → the input, cut where it must be.
Cuts = dict[tuple[str, str, tuple[str, ...], int], str]


def render_demonstrations(tokenizer: Tokenizer, prompt: Demonstrated, known: Cuts) -> tuple[str, tuple[str, ...]]:
    """A prompt as text, and notes of what was cut.

    Args:
        tokenizer: counts the tokens.
        prompt: the prompt.
        known: inputs cut so far: what stands in many prompts is cut once.
    """

    def cut(text: str, index: int, behind: Sequence[str]) -> str:
        # Only what does not stand first has a separator before it, whose tokens count too.
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
        return text  # as it is: not every tokenizer gives back what it has read
    # A character of several tokens may be cut in two, which decoding shows as U+FFFD.
    kept = tokenizer.decode(ids[:room], clean_up_tokenization_spaces=False).rstrip("\ufffd") if room else ""
    return "" if separator.startswith(kept) else kept.removeprefix(separator)
