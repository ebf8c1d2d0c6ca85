"""Model arguments of models behind HTTP, with lm-eval's names: parsed, validated and typed.

In: the mapping a user wrote, and the defaults of a provider. Out: `HttpArguments`, or one error that lists every fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from assay.core.errors import Fault, ModelError, did_you_mean
from assay.core.secrets import is_secret_name
from assay.models.http.exchange import AUTO_BUDGET

AUTO, OFF = "auto", "off"
DIALECTS = (AUTO, "openai", "vllm", "sglang", "llamacpp", "tgi")
TOP_LOGPROBS = "top_logprobs"
LOCAL, REMOTE, NONE = "huggingface", "remote", "none"
BACKENDS = (AUTO, LOCAL, REMOTE, NONE)
_ENDPOINTS = ("/chat/completions", "/completions", "/messages", "/generate")

# Arguments of lm-eval without effect here: the values that mean the same as leaving them out, and what to do otherwise.
_IDLE: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "batch_size": ((None, 1, "1", "auto"), "Leave it out: each request carries one prompt; see num_concurrent"),
    "truncate": ((None, False), "Leave it out: prompts longer than max_length are truncated on the left, and counted"),
    "eos_string": (
        (None,),
        "Leave it out: the server ends at its own end-of-text token; add a stop string to the task",
    ),
    "max_images": ((None, 1), "Leave it out: this version does not support images"),
    "header": ((None,), "Leave it out: the key goes into the header Authorization; see api_key_env"),
    "revision": ((None, "main"), "Leave it out: the server decides which weights it serves"),
    "trust_remote_code": ((None, False), "Leave it out: tokenizers are read from tokenizer.json, without code"),
}


@dataclass(frozen=True, slots=True)
class HttpArguments:
    """Typed model arguments.

    Attributes:
        model: the model's name at the server.
        base_url: address of the API without the endpoint, such as `http://127.0.0.1:8000/v1`.
        dialect: how log-likelihoods are asked for; `auto` finds out.
        tokenizer: folder with the model's `tokenizer.json`; None for the server's own tokenizer.
        tokenizer_backend: `huggingface` for a folder, `remote` for the server's, `none`; `auto` for what there is.
        tokenized_requests: whether prompts of generations are sent as token ids; None for where there is a tokenizer.
        num_concurrent: highest number of requests in flight.
        max_retries: attempts after the first, per request.
        timeout: seconds for one attempt.
        patience: longest time in seconds spent on one request, including pauses that the server asks for.
        backoff: seconds before the first retry.
        max_length: maximum sequence length in tokens; None for the server's.
        max_gen_toks: maximum number of new tokens if a request sets none.
        max_tokens_field: name of the field with the number of new tokens in chat requests; None for the usual one.
        add_bos_token: whether texts begin with BOS; None for the tokenizer's default.
        prefix_token_id: the token used as an empty context; None for BOS, else EOS.
        thinking: most tokens of reasoning; 0 for none, -1 for as many as the model likes, None for its default.
        reasoning_effort: name of an effort of reasoning; None for the model's default.
        choices: how a chat model answers multiple choice by letters: `top_logprobs`; None if it does not.
        constrain: the only answers that a chat model may give.
        seed: seed sent with sampled generations whose task sets none.
        probe_tolerance: largest difference in nats between stepwise generation and scoring that the probe accepts.
        verify_certificate: whether TLS certificates are verified.
        ca_cert_path: file of certificates to trust.
        batch_api: whether requests are sent as a batch of the provider, at half price.
        price_in: dollars per million tokens of the prompt; None for the table's.
        price_out: dollars per million new tokens.
        api_key_env: environment variable that holds the key.
        api_key_file: file that holds the key, instead.
    """

    model: str
    base_url: str
    dialect: str = AUTO
    tokenizer: str | None = None
    tokenizer_backend: str = AUTO
    tokenized_requests: bool | None = None
    num_concurrent: int = 16
    max_retries: int = 10
    timeout: float = 300.0
    patience: float = 1800.0
    backoff: float = 0.5
    max_length: int | None = None
    max_gen_toks: int = 256
    max_tokens_field: str | None = None
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    thinking: int | None = None
    reasoning_effort: str | None = None
    choices: str | None = None
    constrain: tuple[str, ...] = ()
    seed: int | None = None
    probe_tolerance: float = 0.01
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    batch_api: bool = False
    price_in: float | None = None
    price_out: float | None = None
    api_key_env: str = "OPENAI_API_KEY"
    api_key_file: str | None = None


def read_http_arguments(
    args: Mapping[str, Any], base_url: str | None = None, key_variable: str = "OPENAI_API_KEY"
) -> HttpArguments:
    """Parses model arguments.

    Args:
        args: what the user wrote.
        base_url: the address if the user names none; None if one must be named.
        key_variable: the environment variable of the key if the user names none.

    Raises:
        ModelError: lists every unknown name and every invalid value.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {"api_key_env": key_variable} | ({} if base_url is None else {"base_url": base_url})
    for written, value in args.items():
        name = "prefix_token_id" if written == "custom_prefix_token_id" else written
        if name in _IDLE:
            neutral, advice = _IDLE[name]
            faults += [] if value in neutral else [Fault(f"model_args.{name}", "has no effect here", next=advice)]
        elif name in _READERS:
            if value is not None:
                _read(name, value, values, faults)
        elif is_secret_name(name):
            advice = f"Set the environment variable {key_variable}, or api_key_file=PATH"
            faults.append(Fault(f"model_args.{name}", "keys are not taken from the command line", next=advice))
        else:
            found = f'unknown argument "{name}"{did_you_mean(name, _READERS)}'
            faults.append(Fault("model_args", found, "one of: " + ", ".join(_READERS)))
    for name, advice in (("model", "model=NAME"), ("base_url", "base_url=http://HOST:PORT/v1")):
        if name not in values and not any(fault.where == f"model_args.{name}" for fault in faults):
            faults.append(Fault("model_args", f'no "{name}"', next=f"Add: {advice}"))
    if ("price_in" in values) != ("price_out" in values):
        faults.append(Fault("model_args", "one price alone", "price_in and price_out, in dollars per million tokens"))
    if faults:
        raise ModelError(*faults)
    return HttpArguments(**values)


def _read(name: str, value: Any, values: dict[str, Any], faults: list[Fault]) -> None:
    try:
        values[name] = _READERS[name](value)
    except ValueError as error:
        # An address may hold a login, which must not be quoted.
        found = "not usable" if name == "base_url" else f"found {value!r}"
        faults.append(Fault(f"model_args.{name}", found, str(error)))


def _text(value: Any) -> str:
    if isinstance(value, bool) or not str(value).strip():
        raise ValueError("a string")
    return str(value)


def _address(value: Any) -> str:
    """The base URL of an address, also of a full endpoint as lm-eval has it, and of a server's root."""
    text = _text(value).strip().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address such as http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an address without login and query; a key goes into an environment variable (api_key_env)")
    for endpoint in _ENDPOINTS:
        text = text.removesuffix(endpoint)
    return text if urlsplit(text).path else f"{text}/v1"


def _flag(value: Any) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False}
    if str(value).lower() not in known:
        raise ValueError("true or false")
    return known[str(value).lower()]


def _count_from(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, (bool, float)) or not text.isdecimal() or int(text) < least:
            raise ValueError(f"a whole number, at least {least}")
        return int(text)

    return read


def _seconds(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("a number above 0")
    return number


def _budget(value: Any) -> int:
    named = {AUTO: AUTO_BUDGET, OFF: 0, "false": 0}
    text = str(value).strip().lower()
    if text in named:
        return named[text]
    if isinstance(value, (bool, float)) or not text.isdecimal() or int(text) < 1:
        raise ValueError("off, auto or a number of tokens")
    return int(text)


def _texts(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, (list, tuple)) else str(value).split("|")
    found = tuple(dict.fromkeys(str(part).strip() for part in parts))
    if len(found) < 2 or not all(found):
        raise ValueError("at least two different texts, such as A|B|C|D")
    return found


def _price(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("dollars per million tokens")
    return number


def _choice(known: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if str(value) not in known:
            raise ValueError("one of: " + ", ".join(known) + did_you_mean(str(value), known))
        return str(value)

    return read


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "model": _text,
    "base_url": _address,
    "dialect": _choice(DIALECTS),
    "tokenizer": _text,
    "tokenizer_backend": _choice(BACKENDS),
    "tokenized_requests": _flag,
    "num_concurrent": _count_from(1),
    "max_retries": _count_from(0),
    "timeout": _seconds,
    "patience": _seconds,
    "backoff": _seconds,
    "max_length": _count_from(1),
    "max_gen_toks": _count_from(1),
    "max_tokens_field": _text,
    "add_bos_token": _flag,
    "prefix_token_id": _count_from(0),
    "thinking": _budget,
    "reasoning_effort": _text,
    "choices": _choice((TOP_LOGPROBS,)),
    "constrain": _texts,
    "seed": _count_from(0),
    "probe_tolerance": _seconds,
    "verify_certificate": _flag,
    "ca_cert_path": _text,
    "batch_api": _flag,
    "price_in": _price,
    "price_out": _price,
    "api_key_env": _text,
    "api_key_file": _text,
}
