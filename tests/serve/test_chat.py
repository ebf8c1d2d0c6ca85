"""`/v1/chat/completions` of a tiny model with a chat template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.protocols import Model
from assay.core.requests import Generation, Message
from tests.serve.conftest import Running

PATH = "/v1/chat/completions"
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What colour is the sky?"}]


def ask(server: Running, messages: Any = None, **fields: Any) -> Any:
    body = {"model": "tiny", "messages": messages or ASKED, "temperature": 0, "max_tokens": 12, **fields}
    return server.ask(PATH, body)


def test_answers_are_those_of_the_model(server: Running, open_model: Callable[[], Model]) -> None:
    messages = tuple(Message(turn["role"], turn["content"]) for turn in ASKED)
    ((_, own),) = open_model().respond([Generation(messages, (), 12)])
    status, data = ask(server)
    assert status == 200 and data["choices"][0]["message"] == {
        "role": "assistant",
        "content": own.text,  # type: ignore[union-attr]
        "refusal": None,
    }
    assert data["usage"]["prompt_tokens"] == own.prompt_tokens  # type: ignore[union-attr]


def test_both_limits_and_forms_of_content_are_read(server: Running) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "colour?"}]}]
    same = [{"role": "user", "content": "What colour?"}]
    one = ask(server, parts, max_tokens=None, max_completion_tokens=3).data
    other = ask(server, same, max_tokens=3, max_completion_tokens=3).data
    assert one["choices"] == other["choices"] and one["usage"]["completion_tokens"] == 3


def test_log_probabilities_have_the_form_of_chat(server: Running) -> None:
    data = ask(server, logprobs=True, top_logprobs=2, max_tokens=3).data
    content = data["choices"][0]["logprobs"]["content"]
    assert len(content) == 3
    for entry in content:
        assert len(entry["top_logprobs"]) == 2 and bytes(entry["bytes"]).decode() == entry["token"]
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"]  # greedy


def test_a_stream_has_the_same_text(server: Running) -> None:
    body = {"messages": ASKED, "max_tokens": 12, "stream_options": {"include_usage": True}}
    frames = server.frames(PATH, body)
    whole = ask(server).data
    assert frames[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(frame["choices"][0]["delta"].get("content", "") for frame in frames[:-1])
    assert text == whole["choices"][0]["message"]["content"]
    assert frames[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert frames[-1]["usage"] == whole["usage"] and frames[0]["usage"] is None


def test_the_last_message_is_continued_if_that_is_said(server: Running) -> None:
    messages = [*ASKED, {"role": "assistant", "content": "The sky is"}]
    assert ask(server, messages).status == 400
    status, data = ask(
        server, messages, continue_final_message=True, add_generation_prompt=False, return_token_ids=True
    )
    assert status == 200
    prompt = server.ask("/detokenize", {"tokens": data["choices"][0]["prompt_token_ids"]}).data["prompt"]
    assert prompt.endswith("<assistant>The sky is")
    assert ask(server, continue_final_message=True, add_generation_prompt=False).status == 400


REFUSED: dict[str, dict[str, Any]] = {
    "no messages": {"messages": []},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    "tool": {"messages": [{"role": "tool", "content": "x"}]},
    "null": {"messages": [{"role": "user", "content": None}]},
    "tools": {"tools": [{"type": "function"}]},
    "schema": {"response_format": {"type": "json_object"}},
    "two limits": {"max_tokens": 3, "max_completion_tokens": 4},
    "top without logprobs": {"top_logprobs": 3},
    "streamed logprobs": {"logprobs": True, "stream": True},
    "effort": {"reasoning_effort": "low"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_is_refused(server: Running, name: str) -> None:
    status, data = server.ask(PATH, {"model": "tiny", "messages": ASKED, **REFUSED[name]})
    assert status == 400 and data["error"]["message"]


def test_a_turn_that_the_template_drops_is_refused(tmp_path: Any, start: Any) -> None:
    from assay.core.specs import ModelSettings
    from assay.models.hf.families import open_hf
    from tests.models.conftest import save_llama, train_tokenizer

    template = "{% for m in messages %}{% if m['role'] != 'system' %}<{{ m['content'] }}>{% endif %}{% endfor %}"
    folder = save_llama(tmp_path / "m", train_tokenizer(True, template))
    server = start(open_hf({"pretrained": str(folder)}, ModelSettings("auto", "cpu")))
    status, data = ask(server, max_tokens=3)
    assert status == 400 and "system message" in data["error"]["message"]
    assert ask(server, [{"role": "user", "content": "Hi"}], max_tokens=3).status == 200
