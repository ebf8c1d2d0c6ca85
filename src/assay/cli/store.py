"""`assay store check`: whether every answer and run of a store can be read, and what to do if not."""

from __future__ import annotations

from assay.options.parser import CommandLine
from assay.report.store_check_report import show_repair, show_repair_advice, show_store_check
from assay.report.terminal import make_console
from assay.store.integrity import check_store
from assay.store.repair import repair_store
from assay.store.store import default_path


def main(line: CommandLine) -> int:
    """Runs the command; 2 when something cannot be read and was not repaired."""
    options, console = line.options, make_console()
    found = check_store(options.store or default_path())
    show_store_check(found, console)
    if found.is_sound:
        return 0
    if not options.repair:
        show_repair_advice(found, console)
        return 2
    show_repair(found, repair_store(found), console)
    return 0
