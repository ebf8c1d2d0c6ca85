"""`assay show`: the prompt, answers and tokens of a document, or the card of a task."""

from __future__ import annotations

from assay.api import show_document
from assay.core.specs import named_sampler
from assay.options.parser import CommandLine
from assay.options.specification import split_tasks
from assay.report.card_view import print_card
from assay.report.document_view import print_document
from assay.report.terminal import make_console
from assay.tasks.cards import cards
from assay.tasks.catalog import open_catalog


def main(line: CommandLine) -> int:
    """Runs the command."""
    options, console = line.options, make_console()
    if options.card:
        names = [str(name) for name in split_tasks(options.task)]
        for facts in cards(names, open_catalog(options.include_path or ())):
            print_card(console, facts)
            console.print()
        return 0
    for shown in show_document(options.task, options.doc, options.model, options.store, **line.settings):
        sampler = named_sampler(shown.task.card.config)
        print_document(console, shown.document, shown.instance, shown.tokens, shown.examples, sampler)
    return 0
