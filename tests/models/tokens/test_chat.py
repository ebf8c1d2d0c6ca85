"""Conversations through a chat template: what it leaves out is noted."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import Template

from assay.core.requests import Message
from assay.models.tokens.chat import ChatRenderer, Rendered

TALK = (
    Message("system", "Be brief."),
    Message("user", "What is 1+1?"),
    Message("assistant", "2"),
    Message("user", " What is\n 3+3? "),
)
ALL = "{% for m in messages %}<{{m.role}}>{{m.content}}{% endfor %}"


class Templated:
    """A tokenizer that is nothing but its template."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def apply_chat_template(self, messages: Any, **settings: Any) -> str:
        return Template(self.chat_template).render(messages=messages)


@pytest.mark.parametrize(
    ("template", "notes"),
    [
        (ALL, ()),
        (ALL.replace("m.content", "m.content | trim"), ()),
        (ALL.replace("m.content", "m.content.split() | join(' ')"), ()),
        ("{% for m in messages if m.role != 'system' %}{{m.content}}{% endfor %}", ("system_dropped",)),
        ("{{messages[0].content}} {{messages[-1].content}}", ("turn_dropped",)),
        ("{% for m in messages[:-1] %}{{m.content}}{% endfor %}", ("question_dropped",)),
        ("You are a helpful assistant.", ("system_dropped", "turn_dropped", "question_dropped")),
    ],
)
def test_what_a_template_leaves_out_is_noted(template: str, notes: tuple[str, ...]) -> None:
    rendered = ChatRenderer(Templated(template)).render(TALK)  # type: ignore[arg-type]
    assert isinstance(rendered, Rendered)
    assert rendered.notes == notes
