"""Report of `assay probe`: what a server says of itself, and which forms of request work, with the reasons."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from assay.core.server_report import ServerReport
from assay.report.safe_names import printable
from assay.report.terminal import make_console

_WIDEST = 100
_INDENT = 5


def show_server_report(report: ServerReport, format_name: str) -> None:
    """Prints a report as text or JSON."""
    if format_name == "json":
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
        return
    console = make_console()
    for line in _lines(report, min(console.width, _WIDEST)):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _lines(report: ServerReport, width: int) -> Iterator[str]:
    facts = {"model": report.model, "server": report.base_url, **report.facts}
    longest = max(map(len, facts))
    for name, value in facts.items():
        yield from _wrapped(f"{name:<{longest}}  ", value, width)
    for purpose in dict.fromkeys(form.purpose for form in report.forms):
        yield ""
        yield f"{purpose}:"
        for form in report.forms:
            if form.purpose == purpose:
                yield from _wrapped("yes  " if form.works else "no   ", form.name, width)
                for reason in (*form.reasons, *filter(None, [form.remark])):
                    yield from _wrapped(" " * _INDENT + "- ", reason, width)
    for line in report.advice:
        yield ""
        yield from _wrapped("", line, width)


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False
    ) or [head.rstrip()]
