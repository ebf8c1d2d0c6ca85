"""The minimum work of a set of inputs, compared with a brute-force count of all prefixes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.engine.tree import Read, least_work, scored_read

IDS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
READS = st.lists(IDS.flatmap(lambda ids: st.builds(Read, st.just(ids), st.integers(0, len(ids) - 1))), max_size=12)


@given(READS)
def test_least_work_counts_every_distinct_prefix_once(reads: list[Read]) -> None:
    prefixes = {read.ids[:end] for read in reads for end in range(1, len(read.ids) + 1)}
    rows = {read.ids[: place + 1] for read in reads for place in range(read.first_row, len(read.ids))}
    found = least_work(reads)
    assert (found.tokens, found.rows) == (len(prefixes), len(rows))
    assert found.pairs == sum(len(prefix) for prefix in prefixes)


@given(READS)
def test_plain_tokens_count_equal_inputs_once(reads: list[Read]) -> None:
    distinct = {read.ids for read in reads}
    found = least_work(reads)
    assert (found.plain, found.inputs) == (sum(map(len, distinct)), len(distinct))
    assert found.longest == max(map(len, distinct), default=0)


def test_the_last_token_is_never_read() -> None:
    assert scored_read([5, 6], [7, 8], most=10) == Read((5, 6, 7), first_row=1)


def test_a_long_request_is_cut_from_the_left() -> None:
    assert scored_read([1, 2, 3, 4], [5, 6], most=3) == Read((3, 4, 5), first_row=1)
