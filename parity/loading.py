"""`python -m parity loading`: every task and group of lm-eval's tree, built on both sides with its code, without data.

Out: a table of what is built by both, by one only, and by neither with both reasons. It passes if lm-eval
builds nothing that Assay does not.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parity.installation import find_lm_eval
from parity.lifetime import alone_in
from parity.workers import Output, Worker, run_alone

BOTH, ONLY_REFERENCE, ONLY_OURS, NEITHER = "both", "only lm-eval", "only Assay", "neither"
MISSING = "not in the index"
Outcomes = Mapping[str, Mapping[str, Any]]


def compare_loading(python: str | None, output: Output, most: int) -> bool:
    """The whole comparison; returns whether Assay builds everything that lm-eval does."""
    lm_eval = find_lm_eval(python)
    places = {side: output.folder / f"{side}.json" for side in ("reference", "assay")}
    with alone_in(output.folder):
        reference = Worker("reference", lm_eval.python, "parity.reference_loading", (str(places["reference"]),))
        own = (str(places["assay"]), lm_eval.tasks_folder)
        run_alone([reference, Worker("assay", sys.executable, "parity.ours_loading", own)], output)
    theirs, ours = (json.loads(path.read_text(encoding="utf-8")) for path in places.values())
    console = Console() if sys.stdout.isatty() else Console(width=150)
    return show(theirs, ours, Path(lm_eval.tasks_folder), console, most)


def show(theirs: Outcomes, ours: Outcomes, folder: Path, console: Console, most: int) -> bool:
    """Prints counts and reasons."""
    sorted_out = {kind: sort_out(theirs[kind], ours[kind]) for kind in ("task", "group")}
    table = Table("built by", title="Loading")
    for kind in sorted_out:
        table.add_column(f"{kind}s", justify="right")
    for status in (BOTH, ONLY_REFERENCE, ONLY_OURS, NEITHER):
        table.add_row(status, *(f"{len(found[status]):,}" for found in sorted_out.values()))
        for kind, found in sorted_out.items():
            if status != BOTH:
                _print_reasons(kind, status, _by_reason(found[status], theirs[kind], ours[kind], folder), console, most)
    console.print(table)
    return not any(found[ONLY_REFERENCE] for found in sorted_out.values())


def sort_out(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names by which side builds them."""
    found: dict[str, list[str]] = {status: [] for status in (BOTH, ONLY_REFERENCE, ONLY_OURS, NEITHER)}
    for name in sorted({*theirs, *ours}):
        left, right = theirs.get(name, MISSING) is None, ours.get(name, MISSING) is None
        status = {(True, True): BOTH, (True, False): ONLY_REFERENCE, (False, True): ONLY_OURS}
        found[status.get((left, right), NEITHER)].append(name)
    return found


def _by_reason(
    names: Sequence[str], theirs: Mapping[str, Any], ours: Mapping[str, Any], folder: Path
) -> dict[tuple[str, str], list[str]]:
    found = defaultdict(list)
    for name in names:
        reasons = (theirs.get(name, MISSING), ours.get(name, MISSING))
        found[_short(reasons[0], folder), _short(reasons[1], folder)].append(name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _short(reason: str | None, folder: Path) -> str:
    if reason is None:
        return ""
    words = " ".join(reason.replace(f"{folder}/", "").split())
    # Assay says first which line of the task file names the code; the reason is what follows.
    return words[words.find("cannot be imported") :][:160] if "cannot be imported" in words else words[:160]


def _print_reasons(
    kind: str, status: str, reasons: Mapping[tuple[str, str], Sequence[str]], console: Console, most: int
) -> None:
    for (theirs, ours), names in list(reasons.items())[:most]:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        console.print(f"[bold]{status}[/] {kind}: {escape(', '.join(names[:3]))}{more}", highlight=False)
        for side, reason in (("lm-eval", theirs), ("Assay", ours)):
            if reason:
                console.print(f"  {side}: {escape(reason)}", highlight=False)
    if len(reasons) > most:
        console.print(f"… and {len(reasons) - most} more reasons ({status}, {kind})")
