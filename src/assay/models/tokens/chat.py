"""Prompts as text: applies the chat template to conversations, truncates demonstrations, passes text through.

In: prompts. Out: texts with notes, or a failure that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.core.errors import LimitError
from assay.core.requests import Demonstrated, Message, Prompt
from assay.core.responses import Failure
from assay.models.tokens.chat_templates import apply_template
from assay.models.tokens.demonstrations import Cuts, render_demonstrations
from assay.models.tokens.tokenization import Tokenizer


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as text, with notes such as `system_dropped`."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRenderer:
    """Renders prompts as text; each distinct conversation or demonstrated prompt is rendered once.

    Attributes:
        tokenizer: provides the chat template.
        options: arguments for the template, such as `enable_thinking`.
        known: rendered prompts. The choices of one question share a prompt.
        cuts: truncated demonstration inputs.
    """

    tokenizer: Tokenizer
    options: Mapping[str, Any] = field(default_factory=dict)
    known: dict[Prompt, Rendered | Failure] = field(default_factory=dict)
    cuts: Cuts = field(default_factory=dict)

    def render(self, prompt: Prompt) -> Rendered | Failure:
        """The prompt as text for the model."""
        if isinstance(prompt, str):
            return Rendered(prompt)
        if prompt not in self.known:
            self.known[prompt] = self._rendered(prompt)
        return self.known[prompt]

    def _rendered(self, prompt: Demonstrated | tuple[Message, ...]) -> Rendered | Failure:
        if isinstance(prompt, Demonstrated):
            return Rendered(*render_demonstrations(self.tokenizer, prompt, self.cuts))
        return self._conversation(prompt)

    def _conversation(self, messages: tuple[Message, ...]) -> Rendered | Failure:
        if not self.tokenizer.chat_template:
            return _unsupported("the model has no chat template; run without --apply_chat_template")
        if not messages:
            return _unsupported("the conversation has no messages")
        try:
            text = self._apply(messages)
            return Rendered(text, tuple(dict.fromkeys(_lost(messages, text))))
        except LimitError:  # other conversations would take as long
            raise
        except Exception as error:  # templates may raise anything: Jinja errors, ValueError, TypeError, …
            without = tuple(message for message in messages if message.role != "system")
            if without == messages or not without:
                return _unsupported(f"the chat template refused the conversation: {error}")
        # As in lm-eval: many templates have no system role. Dropping it is noted, never silent.
        try:
            text = self._apply(without)
            return Rendered(text, ("system_dropped", *dict.fromkeys(_lost(without, text))))
        except LimitError:
            raise
        except Exception as error:
            return _unsupported(f"the chat template refused the conversation: {error}")

    def _apply(self, messages: tuple[Message, ...]) -> str:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        return apply_template(self.tokenizer, turns, messages[-1].role == "assistant", self.options)


def _lost(messages: tuple[Message, ...], text: str) -> Iterator[str]:
    """Notes on messages that the template left out; whitespace may differ."""
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    words: str | None = None
    for index, message in enumerate(messages):
        if message.text.strip() in text:
            continue
        words = " ".join(text.split()) if words is None else words
        if " ".join(message.text.split()) not in words:
            kind = "question" if index == last else "turn"
            yield "system_dropped" if message.role == "system" else f"{kind}_dropped"


def _unsupported(message: str) -> Failure:
    return Failure("unsupported", message, retryable=False)
