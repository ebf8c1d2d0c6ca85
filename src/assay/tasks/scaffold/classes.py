"""Classification: a text, or a pair of texts, and a column with few different values.

In: a table. Out: a guess with the names of the classes, or nothing. Indices without names are classes with numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.plural import plural
from assay.tasks.scaffold.file_columns import BOOLEAN, INTEGER, TEXT, Column, columns_of, is_empty
from assay.tasks.scaffold.names import ANSWERS, LABELS, PAIRS, STARTS, TEXTS, best, is_about, is_named, plain_name, rank
from assay.tasks.scaffold.values import Guess, Part, Table, Wishes, no_guess

_LONGEST_LABEL = 60
_MOST_LABELS = 200
# A column called "answer" has classes only if they are this few; one called "label" may have many.
_MOST_ANSWERS = 6
_FEW_ROWS = 4
# Rows are sorted by class if these many have other shares than all; random ones differ by less.
_FIRST_ROWS = 200
_LARGEST_CHANGE = 0.1


@dataclass(frozen=True)
class Classes:
    """The classes of a column.

    Attributes:
        labels: their names.
        answer: the key `answer`.
        meaning: what it is, for the reader.
        doubts: what is unknown about them.
    """

    labels: tuple[str, ...]
    answer: str
    meaning: str
    doubts: tuple[str, ...] = ()


def guess_classes(table: Table, wishes: Wishes) -> Guess | None:
    """A classification; None if no column has classes, or no text is left to classify."""
    label = table.named(wishes.answer, "--answer") if wishes.answer else _label_column(table, wishes)
    if label is None:
        return None
    free = [column for column in table.others((label,)) if column.kind == TEXT and not is_about(column)]
    name = _name_column(free, label)
    free = [column for column in free if column is not name]
    text, pair = _texts(table, wishes, free)
    if text is None:
        return None
    values = [value for value in [*label.values, *_training_values(table, label)] if not is_empty(value)]
    classes = _classes(label, values, name, wishes.labels)
    if len(classes.labels) < 2:
        if wishes.kind != "classification":
            return None
        expected = "--labels NAME,NAME,… to name all classes, or another --answer COL"
        raise no_guess(table, f"holds {plural(len(classes.labels), 'class', 'classes')} in {label.name}", expected)
    spare = [c for c in free if c not in (text, pair) and c.mean_length > 20] if pair is None else []
    doubts = [*classes.doubts, *(f"{c.name} is not used: to classify pairs say --pair {c.name}" for c in spare[:1])]
    parts = [Part("text", text.as_text)]
    parts += [] if pair is None else [Part("pair", pair.as_text, "the second text")]
    parts += [Part("labels", classes.labels, "in the order of their indices")]
    parts.append(Part("answer", classes.answer, classes.meaning))
    used = tuple(column for column in (text, pair, label) if column is not None)
    known = (bool(wishes.text) or is_named(text, TEXTS) or pair is not None) and is_named(label, (*LABELS, *ANSWERS))
    majority, first = _commonest(label.filled), _commonest(label.filled[:_FIRST_ROWS])
    is_sorted = abs(majority - first) > _LARGEST_CHANGE
    return Guess(
        "classification",
        tuple(parts),
        used,
        doubts=tuple(doubts),
        are_named=known,
        chance=1 / len(classes.labels),
        majority=majority,
        is_sorted=is_sorted,
    )


def _commonest(values: Sequence[Any]) -> float:
    """Share of the commonest value."""
    return Counter(map(repr, values)).most_common(1)[0][1] / len(values)


# Columns


def _label_column(table: Table, wishes: Wishes) -> Column | None:
    found = [column for column in table.columns if _has_classes(column, wishes.kind == "classification")]
    found = [column for column in found if column.name not in (wishes.text, wishes.pair)]
    names = (*LABELS, *ANSWERS)
    named = [column for column in found if is_named(column, names)]
    others = [column for column in found if not is_about(column)]
    return min(named or others, key=lambda column: rank(column, names), default=None)


def _has_classes(column: Column, is_meant: bool) -> bool:
    size = len(column.filled)
    if column.kind not in (TEXT, INTEGER, BOOLEAN) or column.mean_length > _LONGEST_LABEL or not size:
        return False
    if plain_name(column.name) in STARTS:
        return False
    is_label = is_named(column, LABELS)
    if column.kind == BOOLEAN:
        return True
    if size < _FEW_ROWS:
        return (is_label or is_meant) and (column.kind == INTEGER or column.distinct > 1)
    if is_meant or is_label:
        return column.distinct <= min(_MOST_LABELS, size / 2 if not is_meant else size)
    return column.distinct <= min(_MOST_ANSWERS, max(2, size // 5))


def _name_column(free: Sequence[Column], label: Column) -> Column | None:
    """The column with the names of classes that the label gives as indices."""
    if label.kind != INTEGER:
        return None
    for column in free:
        pairs = {
            (int(index), str(name))
            for index, name in zip(label.values, column.values, strict=True)
            if not is_empty(index) and not is_empty(name)
        }
        is_one_to_one = 1 < len(pairs) == column.distinct == label.distinct < len(label.filled)
        if is_one_to_one and column.mean_length <= _LONGEST_LABEL:
            return column
    return None


def _texts(table: Table, wishes: Wishes, free: Sequence[Column]) -> tuple[Column | None, Column | None]:
    """The text, and the second text of a pair."""
    text = table.named(wishes.text, "--text") if wishes.text else None
    pair = table.named(wishes.pair, "--pair") if wishes.pair else None
    if text is None and pair is None:
        by_name = {plain_name(column.name): column for column in free}
        for first, second in PAIRS:
            if first in by_name and second in by_name:
                return by_name[first], by_name[second]
    rest = [column for column in free if column is not pair]
    return text or best(rest, TEXTS), pair


def _training_values(table: Table, label: Column) -> Sequence[Any]:
    """The label's values in the training file, which may have classes of its own."""
    if not table.training:
        return ()
    found = next((column for column in columns_of(table.training) if column.name == label.name), None)
    return () if found is None or found.kind != label.kind else found.values


# Classes


def _classes(label: Column, values: Sequence[Any], name: Column | None, given: tuple[str, ...]) -> Classes:
    if label.template:
        indices = [value for value in values if isinstance(value, int)]
        names = given or tuple(sorted({str(value) for value in values if not isinstance(value, int)}))
        names = names or tuple(map(str, range(max(indices, default=-1) + 1)))
        return Classes(names, label.template, "as you gave it")
    if label.kind == BOOLEAN:
        return Classes(given or ("no", "yes"), label.as_value, "false is the first class, true the second")
    if label.kind == INTEGER:
        return _numbered(label, sorted({int(value) for value in values}), name, given)
    found = tuple(sorted({str(value) for value in values}))
    unknown = sorted(set(found) - set(given)) if given else []
    doubts = (f"--labels lacks {', '.join(unknown)}, which {label.name} holds",) if unknown else ()
    return Classes(given or found, label.as_value, "name of the class", doubts)


def _numbered(label: Column, indices: Sequence[int], name: Column | None, given: tuple[str, ...]) -> Classes:
    """Classes that the column gives as whole numbers."""
    start = min(indices[0], 0) if indices[0] in (0, 1) and len(indices) < 2 else indices[0]
    size = max(indices[-1] - start + 1, 2, len(given) if start == 0 else 0)
    if size > 2 * max(len(indices), len(given), 2):  # far apart: each number is a class
        expression = f"{list(indices)}.index({label.expression} | int)"
        return Classes(given or tuple(map(str, indices)), "{{" + expression + "}}", "number of the class")
    are_whole = all(type(value) is int for value in label.filled)
    shift = "" if start == 0 else f" - {start}" if start > 0 else f" + {-start}"
    is_plain = start == 0 and are_whole
    answer = label.as_value if is_plain else "{{" + f"{label.expression} | int{shift}" + "}}"
    meaning = "index of the class, counted from 0" if start == 0 else f"number of the class, counted from {start}"
    if given or name is None:
        numbers = tuple(str(start + place) for place in range(size))
        unnamed = f"the classes of {label.name} have no names: say --labels NAME,NAME,…, in the order of their numbers"
        few = f"--labels has {plural(len(given), 'name')}, {label.name} has classes up to {indices[-1]}"
        doubts = (unnamed,) if not given else (few,) if len(given) < size else ()
        return Classes(given or numbers, answer, meaning, doubts)
    by_index = {
        int(index): str(text) for index, text in zip(label.values, name.values, strict=True) if not is_empty(index)
    }
    names = tuple(by_index.get(start + place, str(start + place)) for place in range(size))
    return Classes(names, answer, f"{meaning}; {name.name} has the names")
