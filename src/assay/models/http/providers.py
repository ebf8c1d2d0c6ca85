"""The servers with OpenAI's endpoints as `--model` names. Providers with an API of their own are in their dialects."""

from __future__ import annotations

from assay.models.http.dialects.kinds import LLAMACPP, OLLAMA, SGLANG, TGI, VLLM, chat_of_kind
from assay.models.http.provider import Provider

OPENAI_SERVER = Provider("openai")
OPENAI_CHAT_SERVER = Provider("openai-chat", chat=chat_of_kind)
VLLM_SERVER = Provider("vllm", kind=VLLM)
SGLANG_SERVER = Provider("sglang", kind=SGLANG)
LLAMACPP_SERVER = Provider("llamacpp", kind=LLAMACPP)
TGI_SERVER = Provider("tgi", kind=TGI)
# Its /v1/completions puts prompts into the model's chat template, so that only its chat endpoint says what it does.
OLLAMA_SERVER = Provider("ollama", chat=chat_of_kind, kind=OLLAMA)
