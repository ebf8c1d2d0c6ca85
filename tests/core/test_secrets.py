"""Secrets are hidden by name, by shape and by value; everything else stays as it is."""

from __future__ import annotations

import html
import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError
from assay.core.fingerprints import Fingerprint
from assay.core.identity import response_key
from assay.core.requests import Generation, Sampling
from assay.core.responses import Failure
from assay.core.results import Problem
from assay.core.secrets import (
    HIDDEN,
    is_secret_name,
    redacted,
    redacted_command,
    redacted_text,
    remember,
    remember_environment,
    remember_lines,
    without_known,
    without_secrets,
)
from assay.run.events import Noticed

CANARY = "c4n4ry-51ng5"
SECRET_NAMES = [
    "api_key",
    "OPENAI_API_KEY",
    "apikey",
    "openaiApiKey",
    "hf_token",
    "token",
    "use_auth_token",
    "auth",
    "password",
    "PGPASSWORD",
    "client_secret",
    "secret_key",
    "aws_secret_access_key",
    "AWS_ACCESS_KEY_ID",
    "x-api-key",
    "Authorization",
    "Set-Cookie",
]
OPEN_NAMES = [
    "add_bos_token",
    "eos_token",
    "image_token",
    "tokenizer",
    "max_tokens",
    "token_count",
    "prefix_token_id",
    "pretrained",
    "author",
    "key",
    "monkey",
]
# Put together here, so that no scanner of this repository takes them for real.
SHAPED = [
    "hf_" + "aB3dE6gH9jK2mN5pQ8sT",
    "sk-" + "proj-aB3dE6gH9jK2mN5pQ8",
    "AKIA" + "ABCDEFGHIJ234567",
    "ghp_" + "aB3dE6gH9jK2mN5pQ8sT",
    "xoxb-" + "1234567890-abcdefghij",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
]
ADDRESSES = {
    f"https://me:{CANARY}@host/v1": f"https://{HIDDEN}@host/v1",
    f"https://{CANARY}@host/v1": f"https://{HIDDEN}@host/v1",
    f"https://me:p@ss{CANARY}@host/v1": f"https://{HIDDEN}@host/v1",
    f"https://host/x?a=1&access_token={CANARY}&b=2": f"https://host/x?a=1&access_token={HIDDEN}&b=2",
    f"https://s3/x?X-Amz-Signature={CANARY}&b=2": f"https://s3/x?X-Amz-Signature={HIDDEN}&b=2",
    f"https://blob/x?sv=1&sig={CANARY}": f"https://blob/x?sv=1&sig={HIDDEN}",
}


# By name


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert redacted({"a": [{name: CANARY}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_other_settings_stay(name: str) -> None:
    assert redacted({name: "x"}) == {name: "x"}
    assert redacted_text(f"{name}=x") == f"{name}=x"


@pytest.mark.parametrize("value", [None, True, False, "", 151655, "<|image|>", "[PAD]"])
def test_a_switch_or_a_token_of_a_vocabulary_is_not_a_secret(value: Any) -> None:
    assert redacted({"own_token": value}) == {"own_token": value}


def test_a_secret_of_digits_or_parts_is_hidden() -> None:
    assert redacted({"password": 12345, "auth": ["user", CANARY]}) == {"password": HIDDEN, "auth": HIDDEN}


@pytest.mark.parametrize(
    "text",
    [
        f"no such setting: api_key={CANARY}, b=2",
        f"headers={{'Authorization': 'Bearer {CANARY}'}}",
        f'{{"x-api-key": "{CANARY}"}}',
        f'"{{\\"api_key\\": \\"{CANARY}\\"}}"',
        f"'api_key=\\'{CANARY},b=2' opens a quote",
        f"line 3:\n  token: {CANARY}\n  split: test",
        f"{{split: test, token: {CANARY}}}",
        f"Authorization: Basic {CANARY}",
        f"401 for Bearer {CANARY}",
        *ADDRESSES,
    ],
)
def test_a_message_shows_no_secret(text: str) -> None:
    found = redacted_text(text)
    assert CANARY not in found and HIDDEN in found
    assert redacted_text(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "Bearer of bad news",
        "the tokenizer has no such token: x",
        "f.yaml:3  dataset_kwargs.token: is a list; expected text",
        "pip install hf_transfer, scikit-learn, sk-learn",
        "/models/hf_llama7bchat/task-12345678901234567890",
        "eos_token=</s>, token=5",
        "see user@host or https://host/@me",
        "Add --model_args api_key=…",
    ],
)
def test_a_message_without_secrets_is_kept(text: str) -> None:
    assert redacted_text(text) == text


@pytest.mark.parametrize(
    "words",
    [
        ["--model_args", f"a=1,api_key={CANARY},b=2"],
        ["--model_args", f'{{"api_key": "{CANARY} and more", "b": 2}}'],
        ["--model_args", f"password='two {CANARY}',b=2"],
        ["--model_args", f"headers={{'Authorization': 'Bearer {CANARY}'}}"],
        ["--model_args", f"base_url=http://me:{CANARY}@host"],
        ["--hf_token", CANARY],
        [f"--hf-token={CANARY}"],
    ],
)
def test_a_command_line_shows_no_secret(words: list[str]) -> None:
    text = redacted_command(["assay", "run", *words, "--limit", "3"])
    assert CANARY not in text
    assert text.startswith("assay run --")
    assert text.endswith("--limit 3")


def test_a_command_line_without_secrets_is_kept() -> None:
    words = ["assay", "run", "--model_args", "pretrained=/m,add_bos_token=True,tokenizer=/t", "--tasks", "demo"]
    assert redacted_command(words) == " ".join(words)


# By shape


@pytest.mark.parametrize("secret", SHAPED)
def test_secrets_are_known_by_their_shapes(secret: str) -> None:
    assert redacted({"a": f"use {secret} here"}) == {"a": f"use {HIDDEN} here"}
    assert redacted_text(f"refused: {secret}") == f"refused: {HIDDEN}"


@pytest.mark.parametrize(("address", "shown"), ADDRESSES.items())
def test_a_login_or_a_signature_in_an_address_is_hidden(address: str, shown: str) -> None:
    assert redacted({"base_url": address}) == {"base_url": shown}


@pytest.mark.parametrize("text", ["Bearer of bad news: {{q}}", "password: {{x}}\nAnswer:", "api_key={{key}}"])
def test_a_template_of_a_task_is_not_a_message(text: str) -> None:
    assert redacted({"doc_to_text": text}) == {"doc_to_text": text}


@pytest.mark.parametrize("secret", [*SHAPED, *ADDRESSES, "Bearer abcdefgh12345678"])
def test_documents_and_answers_are_data(secret: str) -> None:
    assert without_known(f"an example: {secret}") == f"an example: {secret}"


# By value


def test_what_was_found_by_name_is_hidden_everywhere() -> None:
    value = 'q"9-<ü>&/x7'
    parse_arguments({"api_key": value}, "--model_args")
    for form in (value, json.dumps(value), json.dumps(value, ensure_ascii=False), html.escape(value), quote(value)):
        assert (
            without_known(f"<{form}>") == redacted_text(f"<{form}>") == f"<{form.replace(form.strip(chr(34)), HIDDEN)}>"
        )


def test_the_environments_secrets_are_known() -> None:
    values = {
        "ACME_API_KEY": "env-c4n4ry-1",
        "HTTPS_PROXY": "http://me:pw-c4n4ry-2@proxy",
        "PWD": "/tmp",
        "X": "y-c4n4ry",
    }
    remember_environment(values)
    assert without_known("env-c4n4ry-1 pw-c4n4ry-2 /tmp y-c4n4ry") == f"{HIDDEN} {HIDDEN} /tmp y-c4n4ry"


def test_a_password_that_is_a_word_or_a_number_changes_no_document() -> None:
    remember({"password": "postgres", "token": "12345678", "api_key": "EMPTY"})
    text = '{"answer": "postgres", "EMPTY": 0.12345678}'
    assert without_known(text) == text
    assert redacted_text("login postgres failed") == f"login {HIDDEN} failed"


def test_a_long_message_takes_little_time() -> None:
    started = time.perf_counter()
    for part in ("a.b-c_", "token_", '"token": ', "api_key='", "eyJabc.", "://a@", "-----BEGIN PRIVATE KEY-----"):
        redacted_text(part * 20_000)
    assert time.perf_counter() - started < 10


# Values that hide secrets themselves


def test_errors_failures_and_notices_show_no_secret() -> None:
    text = f"refused: Bearer {CANARY} at https://me:{CANARY}@host"
    shown = f"refused: Bearer {HIDDEN} at https://{HIDDEN}@host"
    assert str(UserError(Fault("x", text))) == f"x: {shown}"
    assert (Failure("error", text).message, Noticed(text).text) == (shown, shown)


def test_the_trace_of_a_bug_shows_no_secret() -> None:
    found = Problem((Fault("task x", "fell over"),), RuntimeError(f"401: Bearer {CANARY}")).to_json()
    assert found["trace"] == f"RuntimeError: 401: Bearer {HIDDEN}\n"


def test_a_fingerprint_has_no_secret_and_does_not_depend_on_one() -> None:
    def fingerprint(secret: str) -> Fingerprint:
        address = f"https://me:{secret}@host/v1"
        return Fingerprint(f"server(api_key={secret})", settings={"url": address, "headers": {"x-api-key": secret}})

    first, second = fingerprint(CANARY), fingerprint("another-1")
    assert CANARY not in json.dumps(first.to_json())
    assert first.digest == second.digest
    assert Fingerprint.from_json(first.to_json()) == first


def test_the_digest_of_an_ordinary_fingerprint_stays_what_it_was() -> None:
    """As computed before fingerprints were redacted."""
    settings = {
        "base_url": "https://host:8000/v1?x=1",
        "add_bos_token": True,
        "eos_token": "</s>",
        "image_token": 151655,
        "key": "k",
        "sizes": (1, 2),
        "stop": ["a", ("b",)],
    }
    found = Fingerprint("https://host/v1", settings=settings)
    assert found.digest == "cd7380c795e8901f6fc095a7927aa037f4c00fcc865e382969422ecb5b809354"
    assert found.settings == settings


def test_the_key_of_a_request_stays_what_it_was_and_holds_no_secret() -> None:
    """As computed before options were redacted."""
    options = (("num_beams", 2), ("pad_token", "<pad>"), ("top_p", 0.9), ("x", ("a", "b")))
    request = Generation("p", ("\n",), 5, Sampling(0.5, 7, options))
    assert response_key("f" * 64, request).hex() == "b3001254d5e41f574031490dd07861c16c917bd0f9a8cb5594213658b484385f"
    first, second = (Sampling(0.0, None, (("api_key", value),)) for value in (CANARY, HIDDEN))
    assert first.identity() == second.identity()
    assert first.options == (("api_key", CANARY),)


def test_settings_can_go_on_without_their_secrets() -> None:
    assert without_secrets({"token": CANARY, "key": HIDDEN, "dtype": "float32"}) == {"dtype": "float32"}
    assert is_secret_name("token")


@pytest.mark.parametrize("shape", ["\n", "-", "a_", "1|\n", "bearer\n\t", "token=", "://a", "- ", "{token: "])
def test_a_long_hostile_text_takes_no_time(shape: str) -> None:
    text = shape * (20_000 // len(shape))
    started = time.process_time()
    redacted_text(text)
    remember_lines(text)
    assert time.process_time() - started < 5  # minutes, where a pattern goes back over what it has read


@pytest.mark.parametrize("line", ["token: {}: x", "  - api_key:{}", "a: {{password: {}: x", "x: [1, token='{}'"])
def test_the_secrets_of_a_file_that_cannot_be_parsed_are_known(line: str) -> None:
    remember_lines("task: x\n" + line.format("Zx-canary-7Q"))
    assert "canary" not in redacted_text(f"found {line.format('Zx-canary-7Q')}")
