"""The prefix tree against its definition, on random texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.models.engine.prefix_tree import build_tree, pieces
from assay.models.tokens.tokenization import EncodedText

# Few tokens and short texts, so that prefixes meet often; ids of more than a byte, so that their order counts.
tokens = st.sampled_from([0, 1, 255, 256, 70_000])
sequences = st.lists(st.lists(tokens, min_size=2, max_size=9).map(tuple), max_size=12)


def texts_of(rows: list[tuple[int, ...]]) -> list[EncodedText]:
    return [EncodedText(number, row, 1 + number % (len(row) - 1)) for number, row in enumerate(rows)]


def prefixes(rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {row[:end] for row in rows for end in range(1, len(row))}


def path_of(parents: list[int], row: int) -> list[int]:
    """Rows from the root to a row."""
    found = [row]
    while parents[found[0]] >= 0:
        found.insert(0, parents[found[0]])
    return found


def parents_of(rows: list[tuple[int, ...]]) -> list[int]:
    """Every row's parent, found by walking down the segments."""
    parents: list[int] = []
    path: list[int] = []
    for segment in build_tree(texts_of(rows)).segments:
        path = path[: segment.depth]
        for row in range(segment.start, segment.end):
            parents.append(path[-1] if path else -1)
            path.append(row)
    return parents


@given(sequences)
def test_every_distinct_prefix_is_one_row(rows: list[tuple[int, ...]]) -> None:
    tree, parents = build_tree(texts_of(rows)), parents_of(rows)
    found = [tuple(int(tree.tokens[one]) for one in path_of(parents, row)) for row in range(len(tree))]
    assert len(found) == len(set(found)) and set(found) == prefixes(rows)


@given(sequences)
def test_scored_tokens_are_predicted_by_the_row_before_them(rows: list[tuple[int, ...]]) -> None:
    texts, parents = texts_of(rows), parents_of(rows)
    tree = build_tree(texts)
    for number, place in enumerate(tree.order):
        text, own = texts[place], slice(tree.bounds[number], tree.bounds[number + 1])
        scored_prefixes = [tuple(int(tree.tokens[one]) for one in path_of(parents, row)) for row in tree.rows[own]]
        assert scored_prefixes == [text.ids[:end] for end in range(len(text.ids) - text.scored, len(text.ids))]
        assert tuple(tree.targets[own]) == text.ids[-text.scored :]
        assert tree.last_rows[number] == tree.rows[own][-1]


@given(sequences)
def test_texts_are_answered_in_the_order_of_their_last_rows(rows: list[tuple[int, ...]]) -> None:
    tree = build_tree(texts_of(rows))
    assert sorted(tree.order) == list(range(len(rows)))
    assert bool((np.diff(tree.last_rows) >= 0).all())
    assert tree.depth == max((len(row) - 1 for row in rows), default=0)


@given(sequences.filter(bool), st.data())
def test_pieces_of_a_slice_know_their_ancestors(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    tree, parents = build_tree(texts_of(rows)), parents_of(rows)
    low = data.draw(st.integers(0, len(tree) - 1))
    high = data.draw(st.integers(low + 1, len(tree)))
    inside = [one for one in tree.segments if one.end > low and one.start < high]
    covered: list[int] = []
    for piece in pieces(inside, low, high):
        path = path_of(parents, piece.start + low)
        ranges = [row + low for bounds in piece.ancestors for row in range(*bounds)]
        assert path[:-1] == [*path[: piece.cached], *ranges] and all(row < low for row in path[: piece.cached])
        assert piece.depth == len(path) - 1
        covered.extend(range(piece.start + low, piece.end + low))
    assert covered == list(range(low, high))


def test_no_texts_are_an_empty_tree() -> None:
    tree = build_tree([])
    assert (len(tree), tree.segments, tree.depth, list(tree.bounds)) == (0, (), 0, [0])
