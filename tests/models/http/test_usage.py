"""Tokens before a request is sent, and as the providers count them."""

from __future__ import annotations

from typing import Any

import pytest

from assay.models.http.spending.prices import Price, find_price, table
from assay.models.http.spending.usage import Size, Usage, estimated_size, read_usage


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ({"prompt": [1, 2, 3], "max_tokens": 5}, Size(3, 5)),
        ({"prompt": "x" * 30, "max_tokens": 5, "stop": ["\n"]}, Size(11, 5)),
        ({"messages": [{"role": "user", "content": "x" * 30}], "max_completion_tokens": 7}, Size(12, 7)),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "漢字"}]}]}, Size(5, 0)),
        ({"contents": [{"parts": [{"text": "abc"}]}], "generationConfig": {"maxOutputTokens": 9}}, Size(4, 9)),
        ({"prompt": [1], "grammar": "x", "n_predict": 2}, Size(1, 2)),
        ({"prompt": "abc", "own_limit": 4}, Size(2, 4)),
        (None, Size()),
    ],
)
def test_the_size_of_a_request(body: Any, size: Size) -> None:
    assert estimated_size(body, "own_limit") == size


@pytest.mark.parametrize(
    ("data", "usage"),
    [
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}, Usage(9, 2)),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 6},
                }
            },
            Usage(9, 8, cached=4, reasoning=6),
        ),
        (
            {
                "usage": {
                    "input_tokens": 5,
                    "output_tokens": 3,
                    "cache_read_input_tokens": 20,
                    "cache_creation_input_tokens": 10,
                    "output_tokens_details": {"thinking_tokens": 2},
                }
            },
            Usage(35, 3, cached=20, written=10, reasoning=2),
        ),
        (
            {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 30}},
            Usage(9, 32, reasoning=30),
        ),
        ({"tokens_evaluated": 4, "tokens_predicted": 2}, Usage(4, 2)),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}}, Usage(9, 2)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 2}}, None),
        ({"usage": None}, None),
        ({}, None),
    ],
)
def test_the_tokens_that_a_server_counts(data: Any, usage: Usage | None) -> None:
    assert read_usage(data) == usage


def test_cached_reasoning_and_long_prompts_have_their_own_prices() -> None:
    price = Price(2.0, 10.0, cached=0.5, written=2.5, long=(100, 4.0, 20.0))
    assert price.dollars(Usage(100, 10, cached=40, written=20)) == pytest.approx((40 * 2 + 40 * 0.5 + 50 + 100) / 1e6)
    assert price.dollars(Usage(101, 10)) == pytest.approx((404 + 200) / 1e6)
    assert price.most(Size(100, 10)) == pytest.approx((250 + 100) / 1e6)


def test_the_table_is_for_the_providers_own_addresses() -> None:
    assert table()["date"] and "LiteLLM" in table()["source"]
    found = find_price("https://api.openai.com/v1", "gpt-4o")
    assert found is not None and (found.input, found.output, found.cached) == (2.5, 10.0, 1.25)
    batch = find_price("https://api.openai.com/v1", "gpt-4o", is_batch=True)
    assert batch is not None and (batch.input, batch.output) == (1.25, 5.0)
    assert find_price("https://generativelanguage.googleapis.com/v1beta", "models/gemini-2.5-flash") is not None
    assert find_price("https://api.anthropic.com/v1", "claude-opus-4-5") is not None
    assert find_price("https://api.openai.com/v1", "gpt-none") is None
    assert find_price("http://127.0.0.1:8000/v1", "gpt-4o") is None
    assert find_price("http://127.0.0.1:8000/v1", "mine", (1.0, 2.0)) == Price(1.0, 2.0)


def test_every_price_of_the_table_is_a_price() -> None:
    rows = [(name, row) for models in table()["prices"].values() for name, row in models.items()]
    assert len(rows) > 100
    assert [name for name, row in rows if not (0 < row["input"] < 1000 and 0 < row["output"] < 1000)] == []
