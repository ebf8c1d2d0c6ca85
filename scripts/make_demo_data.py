"""Write the generated data of the `demo` task group: arithmetic and word scrambles.

Takes nothing but the fixed seeds below; gives the files `arithmetic_*.jsonl` and
`scramble_*.jsonl`, byte for byte the same each time. Hand-written data is not touched.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

DATA = Path(__file__).parents[1] / "src/assay/tasks/library/demo/data"
ARITHMETIC_ROWS = 60
SCRAMBLE_ROWS = 40
INSERTED = " .,;:!?-/'"

# Common words of 5 to 10 letters, picked so that none is an anagram of another common word.
WORD_LIST = """
animal answer autumn balance balloon banana basket battery beauty bicycle blanket bottle
bottom branch breakfast bridge brother bucket building butter button cabbage camera candle
captain carpet ceiling chair champion charity chicken children chimney chocolate climate
clothes coffee comfort common computer concert corner cotton country cousin crystal curtain
customer daughter decision dentist dinner distance doctor dolphin dragon driver eagle
elephant engine evening example family famous father feather festival football fortune
freedom future galaxy gentle giant glass golden ground guitar hammer happen health history
holiday honey horizon hospital hundred hunter island jacket journey juice jungle kettle
kitchen knife language laptop laughter leather letter library light liquid lizard machine
magazine market meaning medicine member memory message middle million mirror money monkey
morning mother mountain mouse museum music nature needle network notebook number office
onion orange orchard oxygen package palace paper passage peace pencil people pepper person
piano picture pillow plastic police potato powder problem promise pumpkin purple puzzle
quarter question rabbit railway rainbow ribbon rocket running salad salmon sandwich school
science season second shadow shoulder spring square stomach storm street summer sunlight
surprise telephone thunder ticket tiger tomato tongue treasure trouble tunnel turtle
umbrella uncle village violin visitor volcano voyage wagon water wedding weekend whisper
window winter wisdom yellow young zebra
"""
WORDS = WORD_LIST.split()

Row = dict[str, str]
Scramble = Callable[[str, Random], str]


def arithmetic_rows(digits: int, rng: Random) -> Iterator[Row]:
    """Return sums and differences, alternating, operands uniform in [0, 10^digits), none twice.

    After section 3.9.1 of the GPT-3 paper (arXiv 2005.14165), where "D-digit" bounds the
    operands from above only, and a difference may be negative.
    """
    seen: set[str] = set()
    while len(seen) < ARITHMETIC_ROWS:
        left, right = rng.randrange(10**digits), rng.randrange(10**digits)
        plus = len(seen) % 2 == 0
        question = f"What is {left} {'plus' if plus else 'minus'} {right}?"
        if question in seen:
            continue
        seen.add(question)
        yield {
            "question": question,
            "answer": str(left + right if plus else left - right),
            "operation": "addition" if plus else "subtraction",
        }


def cycle(word: str, rng: Random) -> str:
    """Rotate the letters by a random number of places."""
    cut = rng.randrange(1, len(word))
    return word[cut:] + word[:cut]


def shuffle_inside(kept: int) -> Scramble:
    """Return a scramble of all letters but the first and last `kept` ones."""

    def scramble(word: str, rng: Random) -> str:
        inside = list(word[kept:-kept])
        rng.shuffle(inside)
        return word[:kept] + "".join(inside) + word[-kept:]

    return scramble


def insert(word: str, rng: Random) -> str:
    """Put one random punctuation mark or space between each two letters."""
    return word[0] + "".join(rng.choice(INSERTED) + letter for letter in word[1:])


def reverse(word: str, rng: Random) -> str:
    """Spell the word backwards; no randomness is used."""
    return word[::-1]


# Name of the file -> (the shortest word it can change, how to change it); GPT-3 paper, 3.9.2.
SCRAMBLES: dict[str, tuple[int, Scramble]] = {
    "cycle": (5, cycle),
    "anagram1": (5, shuffle_inside(1)),
    "anagram2": (6, shuffle_inside(2)),
    "insertion": (5, insert),
    "reversed": (5, reverse),
}


def scramble_rows(shortest: int, scramble: Scramble, rng: Random) -> Iterator[Row]:
    """Draw distinct words and scramble each until it differs from itself."""
    words = [word for word in WORDS if len(word) >= shortest and _can_change(word)]
    for word in rng.sample(words, SCRAMBLE_ROWS):
        scrambled = word
        while scrambled == word:
            scrambled = scramble(word, rng)
        yield {"scrambled": scrambled, "word": word}


def _can_change(word: str) -> bool:
    """Whether shuffling can alter the word: its innermost letters are not all alike."""
    return len(word) < 6 or len(set(word[2:-2])) > 1


def write_rows(path: Path, rows: Iterator[Row]) -> None:
    """Write one JSON object per line."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def write_all(folder: Path) -> None:
    """Write every generated file; each has its own seed, so none depends on another."""
    for digits in (2, 3, 4, 5):
        name = f"arithmetic_{digits}d"
        write_rows(folder / f"{name}.jsonl", arithmetic_rows(digits, Random(name)))
    for kind, (shortest, scramble) in SCRAMBLES.items():
        name = f"scramble_{kind}"
        rows = scramble_rows(shortest, scramble, Random(name))
        write_rows(folder / f"{name}.jsonl", rows)


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description="Write the generated data of the demo tasks.")
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    write_all(parser.parse_args().folder)


if __name__ == "__main__":
    main()
