"""The questions of the extraction bench as prompts: several forms per kind of answer, several token limits per form.

In: `questions.jsonl`, written for this bench. Out: `Prompt`s, each with its form, limit and side of the split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = Path(__file__).with_name("questions.jsonl")
TUNING, HELD_OUT = "tuning", "held_out"

_NUMBER_SHOTS = """Question: A box has 6 rows of 5 pears. 4 pears are bad. How many are good?
Answer: There are 6 * 5 = 30 pears. 30 - 4 = 26 are good.
#### 26

Question: A ticket costs $12.50. What do 3 tickets cost?
Answer: Three tickets cost 3 * 12.50 = 37.50 dollars.
#### 37.50

Question: {question}
Answer:"""
_LETTER_SHOTS = """Question: Which of these is a drink?
A. bread
B. tea
C. soap
D. wool
Answer: Tea is something that people drink. The answer is (B).

Question: What do we call frozen rain?
A. hail
B. fog
C. sand
D. dew
Answer: Hail falls as pieces of ice. The answer is (A).

Question: {question}
{options}
Answer:"""
_CHOICE_SHOTS = """Question: Is the sea salty?
Answer: Sea water holds a lot of salt, so the answer is yes.

Question: Which is smaller, an ant or a horse?
Answer: An ant is an insect and a horse is a large animal, so the answer is ant.

Question: {question}
Answer:"""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of a question.

    Attributes:
        name: what it is called in the labels.
        template: with `{question}`, and `{options}`, `{inline}` or `{either}` for the choices.
        limits: token limits, used one after another.
        is_chat: whether the text is a user's turn of a conversation; else a text to continue.
    """

    name: str
    template: str
    limits: tuple[int, ...]
    is_chat: bool = True


FORMS: dict[str, tuple[Form, ...]] = {
    "number": (
        Form("plain", "{question}", (40, 110, 160)),
        Form(
            "steps", '{question}\nThink step by step, then finish with "The answer is" and the number.', (60, 140, 160)
        ),
        Form("hashes", "{question}\nSolve it step by step and give the final number after ####.", (40, 120, 160)),
        Form("boxed", "{question}\nShow your work and put the final answer in \\boxed{{}}.", (60, 120, 160)),
        Form("only", "{question}\nAnswer with the number only.", (12, 24, 48)),
        Form("continued", "Question: {question}\nAnswer:", (24, 60, 90), is_chat=False),
        Form("shots", _NUMBER_SHOTS, (30, 60, 90), is_chat=False),
    ),
    "letter": (
        Form("plain", "{question}\n{options}", (30, 60, 100)),
        Form("only", "{question}\n{options}\nAnswer with the letter only.", (8, 24, 48)),
        Form(
            "reasons",
            '{question}\n{options}\nExplain briefly, then finish with "The answer is" and the letter.',
            (40, 80, 120),
        ),
        Form("inline", "{question} Options: {inline}. Say which option is right and why.", (16, 40, 80)),
        Form("shots", _LETTER_SHOTS, (12, 40, 60), is_chat=False),
    ),
    "choice_text": (
        Form("plain", "{question}", (24, 60)),
        Form("only", "{question}\nAnswer with one word: {either}.", (8, 24)),
        Form("reasons", "{question}\nGive a reason first, then answer {either}.", (40, 90)),
        Form("shots", _CHOICE_SHOTS, (24, 48), is_chat=False),
    ),
}
# A text that is continued ends where the model invents the next question; conversations end by themselves.
STOPS = ("\nQuestion:",)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question in one form.

    Attributes:
        id: question and form.
        kind: which list of extractors reads the answer.
        form: its form.
        limit: most tokens of the answer.
        text: the user's turn, or the text to continue.
        is_chat: which of the two.
        choices: texts of the choices.
        split: `tuning`, or `held_out` for the figures; all forms of a question are on one side.
    """

    id: str
    kind: str
    form: str
    limit: int
    text: str
    is_chat: bool
    choices: tuple[str, ...]
    split: str


def prompts() -> Iterator[Prompt]:
    """Every question once, and every other question about a number in a second form."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        place = int(row["id"][1:])
        yield _prompt(row, place, place)
        if row["kind"] == "number" and place % 2:
            yield _prompt(row, place, place + 3)


def _prompt(row: dict[str, Any], place: int, turn: int) -> Prompt:
    forms = FORMS[row["kind"]]
    form = forms[turn % len(forms)]
    choices = row["choices"]
    options = "\n".join(f"{label}. {choice}" for label, choice in zip("ABCD", choices, strict=False))
    inline = ", ".join(f"({label}) {choice}" for label, choice in zip("ABCD", choices, strict=False))
    filled = {"question": row["question"], "options": options, "inline": inline, "either": " or ".join(choices)}
    text = form.template.format(**filled)
    return Prompt(
        f"{row['id']}-{form.name}",
        row["kind"],
        form.name,
        form.limits[turn // len(forms) % len(form.limits)],
        text,
        form.is_chat,
        tuple(choices),
        HELD_OUT if place % 3 == 0 else TUNING,
    )
