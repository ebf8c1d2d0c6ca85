"""Published numbers and their protocols as text: for the terminal, as Markdown, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from assay.core.plural import plural
from assay.report.result_files import ReportFormats
from assay.report.safe_names import printable
from assay.studies.references.protocol import Aspect, ReferenceComparison, ReferenceReport
from assay.studies.references.published import EXACT

_COLUMNS = ("model", "metric", "value", "shots", "source", "note")
_WORDS = {True: "same", False: "differs", None: ""}
_NOT_STATED = "not stated"


def references_text(report: ReferenceReport) -> str:
    """The report for a terminal."""
    return "\n".join(_lines(report, "", False))


def references_markdown(report: ReferenceReport) -> str:
    """The report as a Markdown page."""
    return "\n".join(_lines(report, "## ", True)) + "\n"


def references_json(report: ReferenceReport) -> str:
    """The report as JSON."""
    listed = {task: [dict(entry) for entry in entries] for task, entries in report.listed.items()}
    compared = [
        {**asdict(item), "reference": dict(item.reference), "different": item.different, "not_stated": item.unstated}
        for item in report.comparisons
    ]
    return json.dumps({"of": report.of, "references": listed, "comparisons": compared}, indent=2, ensure_ascii=False)


def _lines(report: ReferenceReport, heading: str, is_markdown: bool) -> Iterator[str]:
    if report.comparisons:
        for number, item in enumerate(report.comparisons):
            yield from ([""] if number else [])
            yield from _comparison_lines(item, heading, is_markdown)
        return
    for number, (task, entries) in enumerate(report.listed.items()):
        yield from ([""] if number else [])
        yield f"{heading}{task}: {plural(len(entries), 'published number')}"
        yield ""
        yield from _table(_COLUMNS, [[_cell(entry.get(key)) for key in _COLUMNS] for entry in entries], is_markdown)
    yield ""
    yield f"What differs in protocol: assay explain {report.of} --reference NAME"


def _comparison_lines(item: ReferenceComparison, heading: str, is_markdown: bool) -> Iterator[str]:
    entry = item.reference
    value = f"{entry.get('metric')} {_cell(entry.get('value'))}"
    yield f"{heading}{item.task}: published {value} of {entry.get('model')}"
    yield f"source: {entry.get('source')}" + (f" ({entry['note']})" if entry.get("note") else "")
    yield ""
    yield from _table(("", "published", "here", ""), [_row(aspect) for aspect in item.aspects], is_markdown)
    yield ""
    if item.score is not None:
        yield item.score.line
        yield EXACT
    yield _conclusion(item)


def _conclusion(item: ReferenceComparison) -> str:
    different = ", ".join(item.different) or "nothing that the source states and that can be compared"
    unstated = f" Not stated by the source: {', '.join(item.unstated)}." if item.unstated else ""
    return f"Differs in: {different}.{unstated}"


def _row(aspect: Aspect) -> list[str]:
    return [aspect.name, aspect.published or _NOT_STATED, aspect.here or "unknown", _WORDS[aspect.is_same]]


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], is_markdown: bool) -> Iterator[str]:
    """Aligned columns, or a Markdown table; empty columns with a heading are left out."""
    filled = [place for place, name in enumerate(headings) if not name or any(row[place] for row in rows)]
    lines = [[row[place] for place in filled] for row in (headings, *rows)]
    if is_markdown:
        for number, line in enumerate(lines):
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            yield from (["|" + "---|" * len(line)] if not number else [])
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield ("  " + "  ".join(map(str.ljust, line, widths))).rstrip()


_FORMATS: Mapping[str, tuple[str, Any]] = {
    "text": (".txt", lambda found: printable(references_text(found))),
    "markdown": (".md", references_markdown),
    "json": (".json", references_json),
}
REFERENCE_FORMATS = ReportFormats("references", _FORMATS)
