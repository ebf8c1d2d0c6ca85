"""A task's or group's card on the terminal: its facts, its known faults and the numbers published for it.

Takes the facts as plain data, prints them in lines of at most 100 characters. Links stay in one piece.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.report.safe_names import printable

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 100
_LABELS = 13
_REFERENCE_COLUMNS = ("model", "metric", "value", "shots", "note")
_SUMMARY_COLUMNS = ("name", "metric", "chance", "shots", "rows")

Facts = Mapping[str, Any]


def print_card(console: Console, facts: Facts) -> None:
    """Prints the facts of a task or group."""
    for line in card_lines(facts, min(console.width, _WIDEST)):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def card_lines(facts: Facts, width: int) -> Iterator[str]:
    """The card as lines of text.

    Args:
        facts: facts of a task or group.
        width: maximum characters of a line; only a longer word exceeds it.
    """
    title = facts.get("title")
    yield f"{facts['name']}: {title}" if title and title != facts["name"] else str(facts["name"])
    if facts.get("description"):
        yield from _wrapped(facts["description"], width)
    yield ""
    for label, text in _labelled(facts):
        if text:
            yield from _wrapped(text, width, f"  {label:<{_LABELS - 2}}", " " * _LABELS)
    if facts.get("traps"):
        yield from ("", "known faults")
        for trap in facts["traps"]:
            yield from _wrapped(trap, width, "  - ", "    ")
    if facts.get("references"):
        yield from ("", "published numbers")
        yield from _references(facts["references"], width)
    if facts.get("tasks"):
        yield from ("", f"{len(facts['tasks'])} tasks")
        yield from _indented(_SUMMARY_COLUMNS, [_summary(task) for task in facts["tasks"]], width)


def _labelled(facts: Facts) -> Iterator[tuple[str, str]]:
    yield "family", facts.get("family", "")
    yield "languages", ", ".join(facts.get("languages", ()))
    yield "dataset", facts.get("dataset", "")
    yield "revision", facts.get("revision", "")
    yield "rows", _rows(facts)
    yield "type", facts.get("output_type", "")
    yield "shots", str(facts.get("shots", ""))
    yield "metrics", ", ".join(facts.get("metrics", ()))
    yield "primary", ": ".join(str(facts[key]) for key in ("primary", "primary_reason") if facts.get(key))
    yield "chance", _chance(facts)
    yield "prompt", facts.get("prompt", "")
    yield "lm-eval", _lm_eval(facts.get("lm_eval"))
    yield "licence", facts.get("licence", "")
    yield "access", facts.get("gated", "")
    yield "citation", facts.get("citation", "")
    yield "homepage", facts.get("homepage", "")
    yield "file", facts.get("file", "")


def _rows(facts: Facts) -> str:
    evaluated = facts.get("evaluated")
    rows = facts.get("rows") or {}
    parts = [f"{split} {count:,}{' (evaluated)' if split == evaluated else ''}" for split, count in rows.items()]
    return ", ".join(parts) or (f"evaluates {evaluated}" if evaluated else "")


def _chance(facts: Facts) -> str:
    if "chance" not in facts:
        return ""
    text = "none for this metric" if facts["chance"] is None else f"{facts['chance']:g}"
    return text + (f"; always the commonest class: {facts['majority']:g}" if "majority" in facts else "")


def _lm_eval(theirs: Any) -> str:
    if not isinstance(theirs, Mapping):
        return ""
    if theirs.get("same"):
        renamed = [f"{own} is {other} there" for own, other in (theirs.get("metrics") or {}).items()]
        apart = [f"apart from {', '.join(theirs['apart_from'])}"] if theirs.get("apart_from") else []
        return ", ".join([f"same prompt and metric as {theirs['task']}", *renamed, *apart])
    return f"differs from {theirs['task']}: {theirs.get('differs', '')}"


def _references(references: Sequence[Facts], width: int) -> Iterator[str]:
    """A table for each source."""
    sources = dict.fromkeys(str(entry.get("source", "")) for entry in references)
    for source in sources:
        yield from _wrapped(source + ":", width, "  ", "  ")
        own = [entry for entry in references if str(entry.get("source", "")) == source]
        yield from _indented(
            _REFERENCE_COLUMNS, [[_cell(entry.get(key)) for key in _REFERENCE_COLUMNS] for entry in own], width
        )


def _summary(task: Facts) -> list[str]:
    rows = task.get("rows") or {}
    sizes = ", ".join(f"{split} {count:,}" for split, count in rows.items())
    return [str(task["name"]), *(_cell(task.get(key)) for key in ("primary", "chance", "shots")), sizes]


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _indented(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """A table; if it is too wide, the first column with the others below it."""
    filled = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    lines = [[row[place] for place in filled] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if 4 + sum(widths) + 2 * (len(widths) - 1) > width:
        for first, *others in lines[1:]:
            yield f"    {first}"
            pairs = zip(lines[0][1:], others, strict=True)
            yield from _wrapped(", ".join(f"{name} {text}" for name, text in pairs if text), width, " " * 6, " " * 6)
        return
    for line in lines:
        yield "    " + "  ".join(map(str.ljust, line, widths)).rstrip()


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(
        " ".join(str(text).split()),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
