"""Chat templates, rendered as in transformers but with time and size limits.

In: a tokenizer and messages. Out: text. A chat template is part of a model's files, so it is untrusted code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro

from assay.core.errors import Fault, LimitError
from assay.guard.jinja_sandbox import GuardedEnvironment, guarded_filter
from assay.guard.size_limit import FILTERS
from assay.guard.time_limit import ResourceLimit
from assay.models.tokens.tokenization import Tokenizer

# transformers appends this tag to a last message that the model is to continue, to find its end in the text.
_END_TAG = "CONTINUE_FINAL_MESSAGE_TAG "


def apply_template(
    tokenizer: Tokenizer, messages: list[dict[str, str]], is_open: bool, options: Mapping[str, Any]
) -> str:
    """A conversation as text, equal to the result of `tokenizer.apply_chat_template`.

    Args:
        tokenizer: provides the template.
        messages: role and content of each message.
        is_open: whether the model continues the last message rather than starting a new one.
        options: arguments for the template, such as `enable_thinking`.

    Raises:
        LimitError: if the template takes too much time or memory.
    """
    try:
        with ResourceLimit():
            if _is_stock(tokenizer):
                return _rendered(tokenizer, messages, is_open, dict(options))
            return tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=not is_open, continue_final_message=is_open, **options
            )
    except LimitError as error:
        raise error.at(_place(tokenizer)) from error
    except MemoryError as error:
        raise LimitError(Fault(_place(tokenizer), "takes more memory than is available")) from error


def _place(tokenizer: Tokenizer) -> str:
    return f"model {getattr(tokenizer, 'name_or_path', '')}, chat template"


def _is_stock(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer uses transformers' own rendering rather than an override in its class."""
    try:
        from transformers import PreTrainedTokenizerBase
    except ImportError:
        return False
    stock: object = PreTrainedTokenizerBase.apply_chat_template
    return isinstance(tokenizer, PreTrainedTokenizerBase) and type(tokenizer).apply_chat_template is stock


def _rendered(tokenizer: Any, messages: list[dict[str, str]], is_open: bool, options: dict[str, Any]) -> str:
    text = tokenizer.get_chat_template(options.pop("chat_template", None), options.get("tools"))
    return render_template(text, messages, is_open, {**tokenizer.special_tokens_map, **options})


def render_template(text: str, messages: list[dict[str, str]], is_open: bool, variables: Mapping[str, Any]) -> str:
    """A conversation as text, by the text of a template.

    Args:
        text: the template.
        messages: role and content of each message.
        is_open: whether the model continues the last message rather than starting a new one.
        variables: the template's variables: special tokens by name, and the user's own.
    """
    last = messages[-1]["content"]
    if is_open:
        if "content" not in text:
            raise ValueError("the chat template does not use the content of messages")
        messages = [*messages[:-1], {**messages[-1], "content": last + _END_TAG}]
    known = {"tools": None, "documents": None, **variables}
    found = _compiled(text).render(messages=messages, add_generation_prompt=not is_open, **known)
    return _cut(found, last) if is_open else found


def _cut(text: str, last: str) -> str:
    """Cuts a rendered conversation at the end of its last message."""
    if last.strip() not in text or _END_TAG.strip() not in text:
        raise ValueError("the last message, which the model is to continue, is not in the rendered chat template")
    end = text.rindex(_END_TAG.strip())
    # A template that strips messages strips the tag as well.
    return text[:end] if text[end : end + len(_END_TAG)] == _END_TAG else text[:end].rstrip()


class _Generation(Extension):
    """`{% generation %}` marks assistant text for training; its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012  (as in Jinja)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Macro) -> Any:
        return caller()


def _as_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


@lru_cache(maxsize=1)
def _environment() -> GuardedEnvironment:
    environment = GuardedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = guarded_filter(_as_json, FILTERS["tojson"])
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return environment


@lru_cache(maxsize=16)
def _compiled(text: str) -> Template:
    return _environment().from_string(text)
