"""`assay task new`: makes a task file from a data file, shows three prompts and checks its contract."""

from __future__ import annotations

from assay.options.parser import CommandLine
from assay.report.document_view import print_document
from assay.report.new_task_report import show_guess, show_next
from assay.report.terminal import make_console
from assay.tasks.scaffold.values import Wishes
from assay.testing.benchmark_table import show_checked_tasks
from assay.testing.new_task import check_new_task, write_task


def main(line: CommandLine) -> int:
    """Runs the command; 2 if the contract finds a fault. The file is written in any case."""
    options = line.options
    wishes = Wishes(**{name: value for name in Wishes.__slots__ if (value := getattr(options, name))})
    made = write_task(
        options.file, options.output_path, train=options.train, wishes=wishes, overwrite=options.overwrite
    )
    show_guess(made.table, made.guess, made.remarks, made.path)
    for shown in made.prompts():
        print_document(make_console(), shown.document, shown.instance)
    made = check_new_task(made, options.rows)
    show_checked_tasks(made.checked, "text")
    show_next(made.path, made.guess)
    return 0 if made.is_sound else 2
