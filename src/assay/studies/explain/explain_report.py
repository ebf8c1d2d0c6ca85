"""An explanation as text: for the terminal, as Markdown, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from assay.core.plural import plural
from assay.report.result_files import ReportFormats, with_file_keys
from assay.report.safe_names import printable
from assay.studies.explain.explain_values import Cause, Explanation, TaskExplanation, points_text
from assay.studies.paired.paired_values import Score


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON data."""
    data = asdict(explanation)
    return {**data, "tasks": [with_file_keys(task, {"caveats": "remarks"}) for task in data["tasks"]]}


def explanation_text(explanation: Explanation) -> str:
    """The explanation for a terminal."""
    return "\n".join(_lines(explanation, "", "", "    "))


def explanation_markdown(explanation: Explanation) -> str:
    """The explanation as a Markdown page; evidence is in code blocks, which preserve white space."""
    return "\n".join(_lines(explanation, "# ", "## ", None)) + "\n"


def _lines(explanation: Explanation, title: str, heading: str, indent: str | None) -> Iterator[str]:
    first, second = explanation.runs
    yield f"{title}run {first} ({explanation.models[0]}) and run {second} ({explanation.models[1]})"
    for task in explanation.tasks:
        names = [task.first.task, task.second.task]
        yield ""
        yield f"{heading}{names[0] if names[0] == names[1] else ' and '.join(names)}"
        yield ""
        yield f"- first:  {_score(task.first)}"
        yield f"- second: {_score(task.second)}"
        yield from _difference(task)
        for cause in task.causes:
            yield ""
            yield f"{cause.kind}: {cause.text}{_share(cause, task)}"
            yield from _evidence(cause, indent)
        for caveat in task.caveats:
            yield ""
            yield f"note: {caveat}"
        yield ""
        yield task.conclusion


def _score(score: Score) -> str:
    estimate = score.estimate
    if estimate.value is None:
        return f"{score.metric or 'no metric'}: no score"
    interval = (
        f" ({estimate.low:.4f} … {estimate.high:.4f})" if estimate.low is not None and estimate.high is not None else ""
    )
    pipeline = f" ({score.filter})" if score.filter != "none" else ""
    return f"{score.metric}{pipeline} {estimate.value:.4f}{interval}, n = {estimate.n:,}"


def _difference(task: TaskExplanation) -> Iterator[str]:
    if task.difference is not None:
        yield f"- difference: {points_text(task.difference, task.first, task.second)}"
    if task.common is not None:
        flips = f"{plural(task.better or 0, 'is', 'are')} better in the second run, {task.worse:,} worse"
        yield f"- of {plural(task.common, 'document')} that both scored, {flips}"


def _share(cause: Cause, task: TaskExplanation) -> str:
    if cause.points is None or task.difference is None:
        return ""
    return f" [{points_text(cause.points, task.first, task.second)}]"


def _evidence(cause: Cause, indent: str | None) -> Iterator[str]:
    if not cause.evidence:
        return
    if indent is not None:
        yield from (indent + line for line in cause.evidence)
        return
    yield ""
    yield "```diff"
    yield from cause.evidence
    yield "```"


EXPLANATION_FORMATS = ReportFormats(
    "explanation",
    {
        "text": (".txt", lambda found: printable(explanation_text(found))),
        "markdown": (".md", explanation_markdown),
        "json": (".json", lambda found: json.dumps(explanation_data(found), indent=2, ensure_ascii=False, default=str)),
    },
)
