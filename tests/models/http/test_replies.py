"""What status, headers and body of a reply mean."""

from __future__ import annotations

import json

import pytest

from assay.models.http.traffic.replies import Action, Rejection, read_reply, wait_seconds

NOW = 1_000_000_000.0  # 9 September 2001, 01:46:40 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Sun, 09 Sep 2001 01:47:40 GMT"}, 60.0),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:00 GMT"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_seconds(headers, NOW) == seconds


def found(status: int, body: object) -> Rejection:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = read_reply(status, {}, content, NOW)
    assert isinstance(reply, Rejection)
    return reply


@pytest.mark.parametrize(
    ("status", "body", "kind", "action"),
    [
        (500, {}, "server_error", Action.RETRY),
        (529, {}, "overloaded", Action.PAUSE),
        (503, b"", "overloaded", Action.PAUSE),
        (429, {"error": {"code": "rate_limit_exceeded"}}, "rate_limited", Action.PAUSE),
        (429, {"error": {"code": "insufficient_quota"}}, "quota", Action.STOP),
        (400, {"error": {"message": "Your credit balance is too low"}}, "quota", Action.STOP),
        (402, {}, "quota", Action.STOP),
        (429, {"error": {"message": "Request too large for m on tokens per min (TPM)"}}, "too_long", Action.FAIL),
        (401, {}, "unauthorized", Action.STOP),
        (400, {"error": {"message": "prompt is too long"}}, "too_long", Action.FAIL),
        (400, {"object": "error", "message": "maximum context length"}, "too_long", Action.FAIL),
        (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}, "too_long", Action.FAIL),
        (
            400,
            {"error": {"message": "The input token count exceeds the maximum number of tokens"}},
            "too_long",
            Action.FAIL,
        ),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, "unauthorized", Action.STOP),
        (400, {"error": "no"}, "rejected", Action.FAIL),
        (400, {"error": {"code": "content_filter"}}, "content_filter", Action.FAIL),
        (403, {"error": {"message": "moderation: your input was flagged"}}, "content_filter", Action.FAIL),
        (403, {"error": {"message": "no such project"}}, "unauthorized", Action.STOP),
        (501, {}, "rejected", Action.FAIL),
        (307, b"", "redirect", Action.STOP),
        (200, {"error": {"code": 429, "message": "slow down"}}, "rate_limited", Action.PAUSE),
        (200, {"error": {"message": "Rate limit reached"}}, "rate_limited", Action.PAUSE),
        (200, {"error": {"code": "401", "message": "bad key"}}, "unauthorized", Action.STOP),
        (200, {"error": "boom"}, "server_error", Action.RETRY),
        (200, b"<html>", "malformed", Action.RETRY),
        (200, b"[1]", "malformed", Action.RETRY),
        (200, b"", "malformed", Action.RETRY),
        (200, b"\xff\xfe", "malformed", Action.RETRY),
        (200, b"[" * 100_000, "malformed", Action.RETRY),
    ],
)
def test_what_a_reply_means(status: int, body: object, kind: str, action: Action) -> None:
    assert (found(status, body).kind, found(status, body).action) == (kind, action)


def test_a_byte_order_mark_is_read_over() -> None:
    assert read_reply(200, {}, b'\xef\xbb\xbf{"choices": []}', NOW) == {"choices": []}


def test_an_object_with_an_empty_error_is_an_answer() -> None:
    assert read_reply(200, {}, b'{"error": null, "choices": []}', NOW) == {"error": None, "choices": []}


@pytest.mark.parametrize(
    ("status", "wanted", "action"),
    [
        (500, "false", Action.FAIL),
        (400, "true", Action.RETRY),
        (500, "true", Action.RETRY),
        (429, "false", Action.PAUSE),
        (401, "true", Action.STOP),
    ],
)
def test_the_server_may_say_whether_asking_again_helps(status: int, wanted: str, action: Action) -> None:
    reply = read_reply(status, {"x-should-retry": wanted}, b"{}", NOW)
    assert isinstance(reply, Rejection) and reply.action is action
