"""A chat template without a tokenizer, for comparisons that name no model: the same on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def render(messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
    """Messages as text. Without a generation prompt the last one is left open, for the model to go on with."""
    text = "".join(f"<{message['role']}>{message['content']}</{message['role']}>\n" for message in messages)
    if add_generation_prompt:
        return text + "<assistant>"
    return text.removesuffix(f"</{messages[-1]['role']}>\n")
