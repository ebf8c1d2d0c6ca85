"""Chat templates: the text is that of transformers, and a template that never ends is an error with the model's name."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import LimitError
from assay.core.requests import Generation, Message
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.chat_templates import apply_template

# ruff: noqa: E501  (templates as they are published)

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA_3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
LLAMA_31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + "
    "'<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"
)
QWEN_3 = """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>' ~ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
MARKED = """{% for m in messages %}
    {% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content.replace('a', 'A').strip().title() }}
    {% if m.role == 'assistant' %}
{% generation %}{{ m.content }}{% set x = 1 %}{{ eos_token }}{% endgeneration %}
    {% else %}
{{ '%s: %s' % (m.role, m.content) }}<{{ {'é': m.content, 'a': [1, none]}|tojson }}>
    {% endif %}
{% endfor %}
{% macro end(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ end('assistant', ':') if add_generation_prompt }}
"""
TEMPLATES = [CHATML, LLAMA_3, LLAMA_31, MISTRAL, GEMMA, QWEN_3, MARKED]
TALKS = [
    [("user", "What is 1+1?")],
    [("system", "Be brief."), ("user", " What is\n 1+1? ")],
    [("user", "a"), ("assistant", "<think>b</think>\n\nc"), ("user", "dé")],
    [("user", "a"), ("assistant", "The answer is")],
    [("system", "s"), ("user", "a"), ("assistant", "The answer is ")],
    [("user", "")],
    [("assistant", "first")],
]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("options", [{}, {"enable_thinking": False}, {"tools": [{"type": "function", "name": "é"}]}])
def test_the_text_is_that_of_transformers(tokenizers: dict[bool, Any], template: str, options: dict[str, Any]) -> None:
    tokenizer = tokenizers[True]
    tokenizer.chat_template = template
    for talk in TALKS:
        messages = [{"role": role, "content": text} for role, text in talk]
        is_open = talk[-1][0] == "assistant"
        wanted = _applied(
            tokenizer.apply_chat_template,
            messages,
            tokenize=False,
            add_generation_prompt=not is_open,
            continue_final_message=is_open,
            **options,
        )
        assert _applied(apply_template, tokenizer, messages, is_open, options) == wanted


def _applied(function: Any, *arguments: Any, **settings: Any) -> str:
    """The text, or the word "refused"."""
    try:
        return str(function(*arguments, **settings))
    except Exception:
        return "refused"


@pytest.mark.parametrize(
    "template",
    [
        "{{ '%1000000000s' % messages[0].content }}",
        "{% for m in messages %}{{ m.content.ljust(1000000000) }}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{{ messages|tojson(indent=1000000000) }}",
    ],
)
def test_a_template_that_fills_the_memory_is_an_error_with_the_models_name(
    tokenizers: dict[bool, Any], template: str
) -> None:
    tokenizer = tokenizers[True]
    tokenizer.chat_template, tokenizer.name_or_path = template, "models/hostile"
    with pytest.raises(LimitError, match=r"model models/hostile, chat template: builds .* expected at most"):
        ChatRenderer(tokenizer).render((Message("system", "s"), Message("user", "a")))


def test_a_template_that_never_ends_is_an_error_before_any_request(opened: Any, copied: Path) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    (copied / "chat_template.jinja").write_text(loops)
    started = time.process_time()
    with pytest.raises(LimitError, match=f"model {copied}, chat template: takes more than 5 seconds"):
        list(opened(copied).respond([Generation((Message("user", "a"),), stop=(), max_tokens=2)]))
    assert time.process_time() - started < 60
