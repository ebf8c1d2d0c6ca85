"""Sections of reports: a table with title and notes, as data and as Markdown; formats of shares and p-values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a report: what it shows, its columns and rows, and what must be said below it."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def section_markdown(section: Section) -> str:
    """A table as Markdown, its title above and its notes below."""
    lines = [f"**{section.title}**", "", *markdown_table(section.headings, section.rows)]
    return "\n".join([*lines, *(f"\n{note}" for note in section.notes)])


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    for cells in (headings, ["---"] * len(headings), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def p_value(value: float | None) -> str:
    """A probability with three digits."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
