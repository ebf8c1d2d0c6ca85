"""Multiple choice: where the choices are (a list, or several columns) and how the right one is stated.

In: a table. Out: a guess, or nothing. The right one may be an index from 0 or 1, a letter, a column's name or its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from assay.tasks.scaffold.file_columns import INTEGER, NUMBERS, TEXT, TEXTS, Column, is_empty, on_one_line
from assay.tasks.scaffold.names import (
    ANSWERS,
    CHOICES,
    CONTEXTS,
    CORRECT,
    QUESTIONS,
    WRONG,
    best,
    is_about,
    is_named,
    plain_name,
    rank,
)
from assay.tasks.scaffold.values import Guess, Part, Table, Wishes, no_guess, rows_named

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# A smaller share of rows whose answer is one of the choices means that these are not the choices.
LEAST_FITTING = 0.9
_SERIES = re.compile(r"(.*?)[_ .-]?([A-Za-z]|\d{1,2})")
# Columns with these names and a number are texts of a pair, or fields of another kind.
_NO_CHOICES = frozenset(
    ("sentence", "text", "question", "premise", "context", "hypothesis", "input", "s", "q", "sent", "paragraph")
)
_CONTINUED = ("ending", "endings", "continuation", "continuations", "completion", "sol")


@dataclass(frozen=True)
class Choices:
    """The choices of every row.

    Attributes:
        value: the key `choices`.
        columns: the columns that hold them.
        rows: the choices of each row as text.
        meaning: what they are, for the reader.
        keys: names of the columns, if each choice has its own.
        are_named: whether names of columns say that these are choices.
        right: the column that is always the right choice; None if another column says which is.
        gaps: indices of rows with an empty choice before a filled one.
    """

    value: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    meaning: str
    keys: tuple[str, ...] = ()
    are_named: bool = True
    right: Column | None = None
    gaps: tuple[int, ...] = ()

    @property
    def most(self) -> int:
        """The largest number of choices of a row."""
        return max(map(len, self.rows), default=0)

    @property
    def expression(self) -> str:
        """The choices as an expression in a template."""
        return self.value.removeprefix("{{").removesuffix("}}") if self.value.startswith("{{") else self.value


@dataclass(frozen=True)
class Reading:
    """A way in which a column states the right choice.

    Attributes:
        name: its name: text, index0, index1, letter, key, label.
        places: index of the right choice in every row; None where the value does not fit.
        parts: the keys `answer` and `labels`.
        share: share of the rows with a value that it fits.
    """

    name: str
    places: tuple[int | None, ...]
    parts: tuple[Part, ...]
    share: float


def guess_choices(table: Table, wishes: Wishes) -> Guess | None:
    """A multiple-choice question; None if the columns hold no choices with a right one."""
    sources = [_stated_choices(table, wishes.choices)] if wishes.choices else list(_sources(table))
    for source in sources:
        found = _with_answer(table, wishes, source)
        if found is not None:
            return found
    _check_meant(table, wishes, sources)
    return None


def _check_meant(table: Table, wishes: Wishes, sources: Sequence[Choices]) -> None:
    """Raises if there are choices whose right one is not found, and nothing else was meant."""
    is_meant = (
        wishes.kind == "multiple_choice"
        or wishes.choices
        or any(source.columns[0].kind == TEXTS and rank(source.columns[0], CHOICES) < 5 for source in sources)
    )
    if wishes.kind in (None, "multiple_choice") and is_meant:
        where = f"finds choices in {' '.join(c.name for c in sources[0].columns)}" if sources else "finds no choices"
        options = "--choices COL[,COL…] and --answer COL: an index, a letter or the text of the right choice"
        raise no_guess(table, f"{where} and no column that says which is right", options)


# Where the choices are


def _stated_choices(table: Table, text: str) -> Choices:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if any(column.name == text for column in table.columns) or "{{" in text or len(names) < 2:
        column = table.named(text, "--choices")
        if column.kind not in (TEXTS, NUMBERS):
            found = f"--choices {text} holds {column.described()}"
            raise no_guess(table, found, "a column of lists, or several columns: --choices A,B,C,D")
        return _listed(column)
    return _series([table.named(name, "--choices") for name in names])


def _sources(table: Table) -> Iterator[Choices]:
    """Everything that may be choices, the most likely first."""
    lists = [column for column in table.columns if column.kind in (TEXTS, NUMBERS) and _are_several(column)]
    yield from map(_listed, sorted(lists, key=lambda column: rank(column, CHOICES)))
    yield from map(_series, sorted(_column_series(table.columns), key=len, reverse=True))
    right_and_wrong = _right_and_wrong(table.columns)
    if right_and_wrong is not None:
        yield right_and_wrong


def _are_several(column: Column) -> bool:
    return sum(len(value) > 1 for value in column.filled) >= LEAST_FITTING * len(column.filled)


def _listed(column: Column) -> Choices:
    are_texts = column.kind == TEXTS
    value = column.as_value if are_texts else "{{" + f"{column.expression} | map('string') | list" + "}}"
    if column.template:
        value = column.template
    rows = tuple(() if is_empty(value) else tuple(map(str, value)) for value in column.values)
    return Choices(value, (column,), rows, column.described().replace("lists", "a list"), are_named=_is_known(column))


def _is_known(column: Column) -> bool:
    own = [replace(column, name=part) for part in column.name.split(".")]
    return any(is_named(part, (*CHOICES, "choice", "option", "ending")) for part in own)


def _column_series(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Columns that are numbered or lettered: A B C D, option1 option2, ending0 ending1, options.A options.B."""
    groups: dict[tuple[str, str], dict[int, Column]] = {}
    for column in columns:
        found = _SERIES.fullmatch(column.name)
        if found is None or column.kind not in (TEXT, INTEGER, "number") or plain_name(found[1]) in _NO_CHOICES:
            continue
        mark = found[2]
        is_number = mark.isdigit()
        if is_number and not found[1]:
            continue
        case = "digit" if is_number else "upper" if mark.isupper() else "lower"
        place = int(mark) if is_number else LETTERS.index(mark.upper())
        groups.setdefault((found[1], case), {})[place] = column
    for group in groups.values():
        start = min(group)
        end = next(place for place in count(start) if place not in group)
        members = [group[place] for place in range(start, end)]
        if len(members) > 1 and (start == 0 or (start == 1 and members[0].name[-1].isdigit())):
            yield members


def _series(columns: Sequence[Column]) -> Choices:
    """Choices with a column each; the last ones may be empty."""
    needs = [any(is_empty(value) for value in column.values) for column in columns]
    are_texts = all(isinstance(value, str) for column in columns for value in column.filled)
    steps = [" | reject('none')"] if any(needs) else []
    steps += [] if are_texts else [" | map('string')"]
    steps += [" | select"] if any(needs) else []
    inner = ", ".join(column.expression for column in columns)
    value = "{{[" + inner + "]" + "".join(steps) + (" | list" if steps else "") + "}}"
    rows = tuple(
        tuple(str(item) for item in values if not is_empty(item))
        for values in zip(*(column.values for column in columns), strict=True)
    )
    filled = list(zip(*([not is_empty(value) for value in column.values] for column in columns), strict=True))
    gaps = tuple(place for place, row in enumerate(filled) if list(row) != sorted(row, reverse=True))
    keys = tuple(column.name for column in columns)
    return Choices(value, tuple(columns), rows, f"{len(columns)} columns", keys, gaps=gaps)


def _right_and_wrong(columns: Sequence[Column]) -> Choices | None:
    """A column with the right choice and others with wrong ones, in an order that depends on the question only."""
    right = best([column for column in columns if column.kind == TEXT and plain_name(column.name) in CORRECT], CORRECT)
    names = [re.sub(r"_?\d+$", "", plain_name(column.name)) for column in columns]
    wrong = [column for column, name in zip(columns, names, strict=True) if name in WRONG]
    if right is None or not wrong or right in wrong:
        return None
    if len(wrong) == 1 and wrong[0].kind == TEXTS:
        listed = f"([{right.expression}] + {wrong[0].expression})"
        others = [tuple(value or ()) for value in wrong[0].values]
    elif all(column.kind == TEXT and column.are_all_text for column in wrong):
        listed = f"[{', '.join(column.expression for column in (right, *wrong))}]"
        others = list(zip(*(column.values for column in wrong), strict=True))
    else:
        return None
    rows = tuple((str(own), *rest) for own, rest in zip(right.values, others, strict=True))
    meaning = "the right one and the wrong ones, in an order that depends on the row only"
    return Choices(
        "{{" + f"{listed} | shuffled({right.expression})" + "}}", (right, *wrong), rows, meaning, right=right
    )


# Which one is right


def _with_answer(table: Table, wishes: Wishes, source: Choices) -> Guess | None:
    if source.right is not None:
        if wishes.answer:
            return None
        reading = Reading("text", (0,) * len(source.rows), (_right_text(source),), 1.0)
        return _guess(table, wishes, source, source.right, [reading])
    if wishes.answer:
        stated = table.named(wishes.answer, "--answer")
        candidates = [stated]
    else:
        candidates = [c for c in table.others(source.columns) if c.kind in (TEXT, INTEGER, TEXTS, NUMBERS)]
        candidates = [column for column in candidates if not _are_as_many(column, source)]
        candidates.sort(key=lambda column: rank(column, ANSWERS))
    for column in candidates:
        readings = [found for found in _readings(table, source, column) if found.share >= LEAST_FITTING]
        is_known = bool(wishes.answer) or is_named(column, ANSWERS)
        if not is_known:
            readings = [found for found in readings if found.name == "text" and not is_about(column)]
        if readings:
            return _guess(table, wishes, source, column, readings)
    return None


def _right_text(source: Choices) -> Part:
    assert source.right is not None
    return Part("answer", source.right.as_value, "the text of the right choice")


def _readings(table: Table, source: Choices, column: Column) -> list[Reading]:
    """Every way to read a column as the right choice, with its share of fitting rows, best first."""
    if column.template:
        meaning = "as you gave it"
        ways: list[tuple[str, _Place, tuple[Part, ...]]] = [
            ("index0", _index(0), (Part("answer", column.template, meaning),)),
            ("text", _text, (Part("answer", column.template, meaning),)),
        ]
        ways = ways[::-1] if column.kind == TEXT else ways
    else:
        ways = list(_ways(table, source, column))
    found = []
    for name, place, parts in ways:
        places = tuple(_placed(place, value, row) for value, row in zip(column.values, source.rows, strict=True))
        share = sum(item is not None for item in places) / max(len(column.filled), 1)
        found.append(Reading(name, places, parts, share))
    return sorted(found, key=lambda reading: -reading.share)


_Place = Callable[[Any, Sequence[str]], "int | None"]


def _placed(place: _Place, value: Any, choices: Sequence[str]) -> int | None:
    """Index of the right choice; of several the first, if all of them are choices."""
    if is_empty(value) or not choices:
        return None
    if isinstance(value, (list, tuple)):
        all_places = [place(item, choices) for item in value]
        return None if None in all_places else all_places[0]
    return place(value, choices)


def _ways(table: Table, source: Choices, column: Column) -> Iterator[tuple[str, _Place, tuple[Part, ...]]]:
    has_lists = column.kind in (TEXTS, NUMBERS)
    yield "text", _text, (Part("answer", _text_answer(source, column), "the text of the right choice"),)
    if all(type(item) is int for value in column.filled for item in (value if has_lists else [value])):
        yield "index0", _index(0), (Part("answer", column.as_value, "index of the right choice, counted from 0"),)
    elif not has_lists:
        as_number = "{{" + f"{column.expression} | int" + "}}"
        yield "index0", _index(0), (Part("answer", as_number, "index of the right choice, counted from 0"),)
    if not has_lists:
        # A list of choices has no names, and columns are numbered as their names say.
        as_number = "{{" + (f"{column.expression} | int - 1") + "}}"
        yield "index1", _index(1), (Part("answer", as_number, "index of the right choice, counted from 1"),)
    for labels in table.others([column, *source.columns]):
        if column.kind == TEXT and _are_labels(labels, source):
            rows = dict(zip(map(id, source.rows), labels.values, strict=True))
            parts = (
                Part("labels", labels.as_value, "the row's own names of its choices"),
                Part("answer", column.as_value, "the name of the right choice"),
            )
            yield "label", _labelled(rows), parts
    letters = LETTERS[: source.most]
    if column.kind in (TEXT, TEXTS):
        yield "letter", _letter, _letter_parts(column, letters, source)
    if source.keys and column.kind == TEXT:
        names = [key.rpartition(".")[2] for key in source.keys]
        index = "{{" + f"{names!r}.index({column.expression} | string | trim)" + "}}"
        yield "key", _named(names), (Part("answer", index, "the name of the right choice's column"),)


def _text(value: Any, choices: Sequence[str]) -> int | None:
    text = str(value)
    return choices.index(text) if text in choices else None


def _index(start: int) -> _Place:
    def place(value: Any, choices: Sequence[str]) -> int | None:
        if isinstance(value, str) and not value.strip().isdecimal():
            return None
        number = int(value) - start if not isinstance(value, bool) else -1
        return number if 0 <= number < len(choices) else None

    return place


def _letter(value: Any, choices: Sequence[str]) -> int | None:
    letter = str(value).strip().upper()
    found = LETTERS.find(letter) if len(letter) == 1 else -1
    return found if 0 <= found < len(choices) else None


def _named(names: Sequence[str]) -> _Place:
    def place(value: Any, choices: Sequence[str]) -> int | None:
        name = str(value).strip()
        return names.index(name) if name in names[: len(choices)] else None

    return place


def _labelled(rows: Mapping[int, Sequence[str]]) -> _Place:
    def place(value: Any, choices: Sequence[str]) -> int | None:
        labels = rows.get(id(choices)) or ()
        return list(labels).index(value) if value in labels else None

    return place


def _are_as_many(column: Column, source: Choices) -> bool:
    """Whether a column holds a value for every choice."""
    if column.kind not in (TEXTS, NUMBERS):
        return False
    return [len(value or ()) for value in column.values] == list(map(len, source.rows))


def _are_labels(column: Column, source: Choices) -> bool:
    return column.kind == TEXTS and _are_as_many(column, source) and column.mean_length < 15 * source.most


def _text_answer(source: Choices, column: Column) -> str:
    """The right choice's text; by its index where a text of digits would be taken for one."""
    are_texts = all(isinstance(value, str) for value in column.filled)
    if column.kind == TEXTS or (are_texts and column.is_direct):
        return column.as_value
    if are_texts and not any(value.strip().isdecimal() for value in column.filled):
        return column.as_value
    return "{{" + f"({source.expression}).index({column.expression} | string)" + "}}"


def _letter_parts(column: Column, letters: str, source: Choices) -> tuple[Part, ...]:
    values = [item for value in column.filled for item in (value if column.kind == TEXTS else [value])]
    is_clean = all(isinstance(value, str) and value == value.strip() for value in values)
    are_lower = is_clean and all(value.islower() for value in values)
    shown = letters.lower() if are_lower else letters
    is_as_it_is = is_clean and all(value in shown for value in values)
    answer = column.as_value if is_as_it_is else "{{" + f"{column.expression} | trim | upper" + "}}"
    is_even = len(set(map(len, source.rows))) == 1
    labels = tuple(shown) if is_even else "{{" + f"{list(shown)!r}[:({source.expression}) | length]" + "}}"
    return Part("labels", labels, "the letters of the choices"), Part("answer", answer, "letter of the right choice")


# The guess


def _guess(table: Table, wishes: Wishes, source: Choices, answer: Column, readings: Sequence[Reading]) -> Guess | None:
    used = [*source.columns, answer]
    free = [column for column in table.others(used) if column.kind in (TEXT, INTEGER) and not is_about(column)]
    question = table.named(wishes.question, "--question") if wishes.question else best(_varied(free), QUESTIONS)
    if question is None:
        return None
    context = _context(table, wishes, [column for column in free if column is not question])
    reading, doubts = _chosen(table, source, answer, readings)
    parts = [Part("question", question.as_text)]
    parts += [] if context is None else [Part("context", context.as_text, "a text to read first")]
    parts += [Part("choices", source.value, source.meaning)]
    parts += sorted(reading.parts, key=lambda part: part.key == "answer")
    if _completes(question, source):
        parts.append(Part("completes", True, "the choices continue the question's sentence"))
    known = source.are_named and (bool(wishes.answer) or is_named(answer, ANSWERS) or source.right is not None)
    places = Counter(place for place in reading.places if place is not None)
    sizes = [len(row) for row in source.rows if row]
    contexts = [] if context is None else [context]
    return Guess(
        "multiple_choice",
        tuple(parts),
        tuple(dict.fromkeys((question, *contexts, *used))),
        doubts=(*doubts, *_unfit(source, answer, reading)),
        are_named=known and (bool(wishes.question) or is_named(question, QUESTIONS)),
        chance=sum(1 / size for size in sizes) / max(len(sizes), 1),
        majority=None if source.right is not None or not places else max(places.values()) / sum(places.values()),
        optional=(*contexts, *(source.columns[2:] if source.keys else ())),
    )


def _varied(columns: Sequence[Column]) -> Sequence[Column]:
    """The columns that differ between rows; all if none does."""
    return [column for column in columns if column.distinct > len(column.filled) // 10] or columns


def _context(table: Table, wishes: Wishes, free: Sequence[Column]) -> Column | None:
    if wishes.context:
        return table.named(wishes.context, "--context")
    return best([column for column in free if column.kind == TEXT], CONTEXTS, needs_name=True)


def _chosen(
    table: Table, source: Choices, answer: Column, readings: Sequence[Reading]
) -> tuple[Reading, tuple[str, ...]]:
    """The reading to use, and the other ones that fit as well."""
    fitting = [reading for reading in readings if reading.share == readings[0].share]
    named = {reading.name: reading for reading in fitting}
    first = fitting[0]
    if "index0" in named and "index1" in named:
        first = named["index1" if source.keys and source.keys[0].endswith("1") else "index0"]
    if "text" in named and (answer.are_all_text or answer.kind == TEXTS):
        first = named["text"]
    elif "index0" in named and "text" in named and not answer.are_all_text:
        first = named["index0"]
    other = [reading for reading in fitting if reading.places != first.places]
    advice = {
        "index0": "if it counts from 0, say --answer '{{" + answer.expression + " | int}}'",
        "index1": "if it counts from 1, say --answer '{{" + answer.expression + " | int - 1}}'",
        "text": "its values are also texts of choices: if these are meant, say --answer '"
        + _text_answer(source, replace(answer, is_direct=False))
        + "'",
    }
    return first, tuple(f"{answer.name}: {advice[found.name]}" for found in other[:1] if found.name in advice)


def _unfit(source: Choices, answer: Column, reading: Reading) -> Iterator[str]:
    """What does not fit: empty choices between others, answers that are none of the choices."""
    if source.gaps:
        yield f"{source.keys[0]} …: {rows_named(source.gaps)} with an empty choice before a filled one"
    wrong = [
        place
        for place, (value, right) in enumerate(zip(answer.values, reading.places, strict=True))
        if right is None and not is_empty(value)
    ]
    if wrong:
        value = on_one_line(answer.values[wrong[0]], 40)
        yield f"{answer.name}: the answer of {rows_named(wrong)} is none of its choices: {value}"


def _completes(question: Column, source: Choices) -> bool:
    """Whether the choices continue the question's sentence."""
    name = re.sub(r"_?\d+$", "", plain_name(source.columns[0].name))
    open_ended = [str(value).rstrip()[-1:] not in ".?!:_" for value in question.filled]
    return name in _CONTINUED and sum(open_ended) > len(open_ended) / 2
