"""Write docs/benchmarks.md: every benchmark of the library, with a table for each family.

Takes the cards of the library's task files; gives the page. A test checks that it is current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.core.plural import plural
from assay.tasks.cards import cards
from assay.tasks.catalog import Catalog

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
FAMILIES = {
    "commonsense": "Common sense",
    "glue": "GLUE",
    "superglue": "SuperGLUE",
    "nli": "Natural language inference",
    "qa": "Question answering",
    "math": "Mathematics",
    "demo": "Demo: small, offline",
}
INTRO = """\
# Benchmarks

<!-- Made by scripts/make_benchmark_page.py, which reads the cards of the library's task files. Regenerate it with
     python scripts/make_benchmark_page.py -->

{count} in {families}, ready to run by name: `assay run --model smollm2 --tasks hellaswag`.
`assay ls tasks WORDS` searches them, `assay show TASK --card` prints one with its source, known faults and published
numbers, and [The library](library.md) says how such a file is written. *Metric* is the one to quote; *chance* is its
score for guessing, with the score of always choosing the commonest class in brackets; *rows* are those that are
evaluated. *lm-eval* says whether prompt and metric are those of lm-eval 0.4.13's task.
"""
HEADINGS = ("Name", "Benchmark", "Metric", "Chance", "Shots", "Rows", "Licence", "lm-eval")

Facts = Mapping[str, Any]


def page() -> str:
    """The page."""
    catalog = Catalog()
    families: dict[str, list[str]] = {}
    for entry in catalog.entries.values():
        is_part = entry.whole and entry.whole != entry.name
        if entry.kind in ("task", "group") and entry.family and not is_part:
            families.setdefault(entry.family, []).append(entry.name)
    count = sum(entry.kind == "task" for entry in catalog.entries.values())
    names = sorted(families, key=lambda name: (name == "demo", name))
    parts = [INTRO.format(count=plural(count, "task"), families=plural(len(names), "family", "families"))]
    parts += ["".join(_family(name, sorted(families[name]), catalog)) for name in names]
    return "\n".join(parts)


def _family(name: str, members: list[str], catalog: Catalog) -> Iterator[str]:
    yield f"## {FAMILIES.get(name, name.replace('_', ' ').capitalize())}\n"
    wholes = {entry.whole for entry in catalog.entries.values()}
    known = dict(zip(members, cards(members, catalog), strict=True))
    benchmarks = {member: facts for member, facts in known.items() if facts["kind"] == "task" or member in wholes}
    if benchmarks:
        yield "\n" + _line(HEADINGS) + _line(["---"] * len(HEADINGS))
        yield from (_line(_cells(facts, catalog)) for facts in benchmarks.values())
    groups = {member: facts for member, facts in known.items() if member not in benchmarks}
    if groups:
        yield "\n" + _line(("Group", "What", "Tasks")) + _line(["---"] * 3)
        for facts in groups.values():
            yield _line((f"`{facts['name']}`", facts.get("description", ""), f"{len(facts['tasks'])}"))


def _cells(facts: Facts, catalog: Catalog) -> list[str]:
    tasks = facts.get("tasks", ())
    first = cards([tasks[0]["name"]], catalog)[0] if tasks else facts
    number = f", {plural(len(tasks), 'task')}" if tasks else ""
    rows = facts.get("rows", {}).get(first.get("evaluated"))
    return [
        f"`{facts['name']}`{number}",
        facts.get("description", ""),
        facts.get("primary", ""),
        _chance(first),
        str(first.get("shots", "")),
        "" if rows is None else f"{rows:,}",
        facts.get("licence", ""),
        _lm_eval(facts),
    ]


def _chance(facts: Facts) -> str:
    chance = facts.get("chance")
    if chance is None:
        return "–"
    return f"{chance:g}" + (f" ({facts['majority']:g})" if "majority" in facts else "")


def _lm_eval(facts: Facts) -> str:
    theirs = facts.get("lm_eval")
    if theirs is None:
        return "–"
    name = "" if theirs["task"] == facts["name"] else f" (`{theirs['task']}`)"
    return f"same{name}" if theirs["same"] else f"differs{name}: {theirs['differs']}"


def _line(cells: Any) -> str:
    return "| " + " | ".join(" ".join(str(cell).replace("|", "\\|").split()) for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
