"""How well filters find the answers that the labels state: precision, recall and agreement on the labelled outputs.

In: `labelled.jsonl` and named readers, ours and lm-eval's filters as Assay runs them. Out: counts per reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.specs import FilterSpec
from assay.scoring.extraction.numbers import canonical
from assay.scoring.extraction.spans import plain
from assay.scoring.filters.text_filters import INVALID
from assay.scoring.registry import make_filter

LABELLED = Path(__file__).with_name("labelled.jsonl")
NUMBER, LETTER, CHOICE = KINDS = ("number", "letter", "choice_text")
_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Labelled:
    """One output and its label.

    Attributes:
        id: question and form.
        split: `tuning` or `held_out`.
        kind: which list of extractors reads it.
        text: what the model wrote.
        is_cut: whether the token limit cut it off.
        choices: texts of the choices.
        label: the answer that the text gives; None where it gives none.
    """

    id: str
    split: str
    kind: str
    text: str
    is_cut: bool
    choices: tuple[str, ...]
    label: str | None


# A reading of a text: the answer, or None.
Reader = Callable[[Labelled], "str | None"]


def labelled() -> list[Labelled]:
    """All labelled outputs."""
    rows = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    return [
        Labelled(
            row["id"],
            row["split"],
            row["kind"],
            row["text"],
            row["finish_reason"] == "length",
            tuple(row["choices"]),
            row["label"],
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a reader made of some texts.

    Attributes:
        texts: how many there were.
        answered: those that give an answer by their label.
        read: those in which the reader found one.
        right: those in which it found that of the label.
        agreed: those on which reader and label agree, also that there is none.
    """

    texts: int
    answered: int
    read: int
    right: int
    agreed: int

    @property
    def precision(self) -> float:
        return self.right / self.read if self.read else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.answered if self.answered else 1.0


def measure(reader: Reader, items: Iterable[Labelled]) -> Counts:
    """Compares a reader with the labels."""
    pairs = [(item, reader(item)) for item in items]
    right = sum(is_right(item, said) for item, said in pairs)
    return Counts(
        texts=len(pairs),
        answered=sum(item.label is not None for item, _ in pairs),
        read=sum(said is not None for _, said in pairs),
        right=right,
        agreed=right + sum(item.label is None and said is None for item, said in pairs),
    )


def is_right(item: Labelled, said: str | None) -> bool:
    """Whether a reading is the label's answer; numbers are compared as numbers."""
    if said is None or item.label is None:
        return False
    if item.kind == NUMBER:
        return canonical(said) == canonical(item.label)
    return plain(said) == plain(item.label)


def ours(using: str, minds_cuts: bool = True) -> Reader:
    """A list of the filter `extract`."""
    made: Any = make_filter(FilterSpec("extract", {"using": using}), "bench")

    def read(item: Labelled) -> str | None:
        is_cut = ((item.is_cut and minds_cuts,),)
        found: str | None = made.traced([[item.text]], {"choices": list(item.choices)}, is_cut)[1][0][0].answer
        return found

    return read


def theirs(function: str, **options: Any) -> Reader:
    """One of lm-eval's filters."""
    made = make_filter(FilterSpec(function, options), "bench")

    def read(item: Labelled) -> str | None:
        said = made([[item.text]], {"choices": list(item.choices)})[0][0]
        return None if said == INVALID else _as_choice(item, str(said))

    return read


def among_choices(group_select: int) -> Reader:
    """A regular expression of the choices' texts, as lm-eval's zero-shot BIG-Bench Hard tasks have it."""

    def read(item: Labelled) -> str | None:
        pattern = rf"(?i)\b({'|'.join(item.choices)})\b"
        return theirs("regex", regex_pattern=pattern, group_select=group_select)(item)

    return read


def _as_choice(item: Labelled, said: str) -> str:
    """`multi_choice_regex` says "(B)", whether it found the letter or the choice's text."""
    place = _LETTERS.find(said[1]) if item.kind != NUMBER and len(said) == 3 and said[0] == "(" else -1
    if place < 0:
        return said
    return item.choices[place] if item.kind == CHOICE and place < len(item.choices) else said[1]


_FLAN = {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "ignore_punctuation": True}
READERS: dict[str, dict[str, Reader]] = {
    NUMBER: {
        "`extract: number`": ours("number"),
        "the same, blind to cuts": ours("number", minds_cuts=False),
        "gsm8k strict-match": theirs("regex", regex_pattern=r"#### (\-?[0-9\.\,]+)"),
        "gsm8k flexible-extract": theirs("regex", regex_pattern=r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1),
    },
    LETTER: {
        "`extract: letter`": ours("letter"),
        "the same, blind to cuts": ours("letter", minds_cuts=False),
        "mmlu_pro custom-extract": theirs("regex", regex_pattern=r"answer is \(?([ABCDEFGHIJ])\)?"),
        "mmlu_flan flexible-extract": theirs("multi_choice_regex", group_select=0, **_FLAN),
        "gpqa flexible-extract": theirs("multi_choice_regex", group_select=-1, **_FLAN),
    },
    CHOICE: {
        "`extract: choice_text`": ours("choice_text"),
        "the same, blind to cuts": ours("choice_text", minds_cuts=False),
        "bbh flexible-extract": among_choices(0),
        "the same, last match": among_choices(-1),
    },
}


def misread(kind: str, split: str | None = None) -> Iterator[tuple[Labelled, str | None]]:
    """Texts that our list reads otherwise than the label, and how."""
    reader = next(iter(READERS[kind].values()))
    for item in _of(labelled(), kind, split):
        said = reader(item)
        if said is None and item.label is None:
            continue
        if not is_right(item, said):
            yield item, said


def _of(items: Sequence[Labelled], kind: str, split: str | None) -> list[Labelled]:
    return [item for item in items if item.kind == kind and split in (None, item.split)]


def table(split: str) -> str:
    """The figures of one side of the split as a Markdown table."""
    lines = ["| answer | reader | precision | recall | agreement | false readings of cut texts |", "|---" * 6 + "|"]
    items = labelled()
    for kind, readers in READERS.items():
        own = _of(items, kind, split)
        for name, reader in readers.items():
            found, cut = measure(reader, own), measure(reader, [item for item in own if item.is_cut])
            shares = [
                f"{found.precision:.2f} ({found.right}/{found.read})",
                f"{found.recall:.2f} ({found.right}/{found.answered})",
                f"{found.agreed / found.texts:.2f} ({found.agreed}/{found.texts})",
                f"{cut.read - cut.right} of {cut.texts}",
            ]
            lines.append(f"| {kind} | {name} | {' | '.join(shares)} |")
    return "\n".join(lines)
