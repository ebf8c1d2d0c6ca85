"""Write docs/benchmarks.md: every benchmark of the library, with a table for each family, and what was checked.

Takes the cards of the library's task files, and the records of `scripts/check_library.py` and `python -m parity library
--record`; gives the page. A test checks that it is current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.plural import plural
from assay.tasks.cards import cards
from assay.tasks.catalog import Catalog

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
CONTRACT = DOCS / "studies" / "library_contract.json"
PARITY = DOCS / "studies" / "library_parity.json"
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

CHECKS = """\
## What was checked

Every task meets [the contract](library.md#the-contract) on miniature rows, in every style and for every kind of
classifier head that its format allows (`pytest tests/library`). This table has what was checked on the benchmarks' own
rows: the contract, by `python scripts/check_library.py DATA`, on {rows} random documents of each task; and prompts and
scores beside lm-eval 0.4.13's task of the same definition, document by document, by `python -m parity library` (where
there are no other rows, on miniature ones): of {compared} tasks that are to be the same, {equal} are equal in every
prompt and score, with the task's own examples and with three. *Beside lm-eval* counts them.
*Allowed* names the checks that a benchmark does not meet on purpose, and *few* those that at most 2 % of the documents
miss; `assay check TASK --contract --data DIR` gives the reasons.

"""
CHECK_HEADINGS = ("Name", "Tasks", "Documents", "Styles", "Heads", "Faults", "Allowed", "Few", "Beside lm-eval")

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
    if CONTRACT.is_file() and PARITY.is_file():
        parts.append("".join(_checks([member for name in names for member in sorted(families[name])], catalog)))
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


def _checks(members: Sequence[str], catalog: Catalog) -> Iterator[str]:
    """What was checked on real rows: a line for each benchmark with some."""
    contract, parity = (json.loads(path.read_text(encoding="utf-8")) for path in (CONTRACT, PARITY))
    wholes = {entry.whole for entry in catalog.entries.values()}
    equal = sum(item["prompts"] == item["scores"] == "equal" for item in parity.values())
    yield (
        CHECKS.format(rows=contract["rows"], compared=len(parity), equal=equal)
        + _line(CHECK_HEADINGS)
        + _line(["---"] * len(CHECK_HEADINGS))
    )
    for facts in cards(members, catalog):
        if facts["kind"] == "task" or facts["name"] in wholes:
            names = [task["name"] for task in facts.get("tasks", ())] or [facts["name"]]
            found = [contract["tasks"][name] for name in names if name in contract["tasks"]]
            compared = [parity[name] for name in names if name in parity]
            if found or any(item["prompts"] == "equal" for item in compared):
                yield _line((f"`{facts['name']}`", *_checked(found, len(names)), _compared(compared)))


def _checked(found: Sequence[Facts], total: int) -> list[str]:
    """The cells of the contract."""
    if not found:
        return [f"0 of {total}", *["–"] * (len(CHECK_HEADINGS) - 3)]
    unions = {key: sorted({name for item in found for name in item[key]}) for key in ("heads", "allowed", "remarks")}
    return [
        f"{len(found)}" if len(found) == total else f"{len(found)} of {total}",
        f"{sum(item['documents'] for item in found):,}",
        f"{max(len(item['styles']) for item in found)}",
        ", ".join(unions["heads"]) or "–",
        f"{sum(len(item['faults']) for item in found)}",
        ", ".join(unions["allowed"]) or "–",
        ", ".join(unions["remarks"]) or "–",
    ]


def _compared(compared: Sequence[Facts]) -> str:
    """The comparison with lm-eval: what is equal, and why the others were not compared."""
    if not compared:
        return "–"
    said = []
    for what in ("prompts", "scores"):
        equal = [item for item in compared if item[what] == "equal"]
        if equal:
            said.append(f"{what} equal in {plural(len(equal), 'task')}")
    differing = [item for item in compared if {item["prompts"], item["scores"]} - {"equal", "–"}]
    failed = [item for item in compared if item["prompts"] == "–"]
    reasons = dict.fromkeys(item["remark"] or "not compared" for item in (*differing, *failed))
    return "; ".join([*said, *reasons])


def _line(cells: Any) -> str:
    return "| " + " | ".join(" ".join(str(cell).replace("|", "\\|").split()) for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
