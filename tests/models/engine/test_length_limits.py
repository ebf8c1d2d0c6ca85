"""Length limits in configurations, above which texts run alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assay.models.engine.length_limits import find_leak, find_limit


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({"floor_scale": 8192, "attn_temperature_tuning": True}, 8191),
        ({"floor_scale": 8192.0, "attn_temperature_tuning": 4}, 8191),
        ({"floor_scale": 8192, "attn_temperature_tuning": False}, None),
        ({"index_topk": 2048, "keep_window_size": 100}, 99),
        ({"index_topk_blocks": 16, "index_block_size": 128}, 2047),
        ({"index_topk_blocks": 16}, None),
        ({"index_topk": None, "sliding_window": 8}, None),
    ],
)
def test_the_shortest_length_counts(settings: dict[str, Any], tokens: int | None) -> None:
    limit = find_limit(SimpleNamespace(**settings))
    assert (None if limit is None else limit.tokens) == tokens


def test_blocks_from_the_start_of_the_row_bear_no_padding() -> None:
    assert "blocks of tokens" in str(find_leak(SimpleNamespace(compress_rates={"a": 4})))
    assert find_leak(SimpleNamespace(index_topk=4)) is None
