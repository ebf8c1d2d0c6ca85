"""`assay show`: the prompt, answers and tokens of a document."""

from __future__ import annotations

from assay.api import show_document
from assay.core.specs import named_sampler
from assay.options.parser import CommandLine
from assay.report.document_view import print_document
from assay.report.terminal import make_console


def main(line: CommandLine) -> int:
    """Runs the command."""
    options, console = line.options, make_console()
    for shown in show_document(options.task, options.doc, options.model, options.store, **line.settings):
        sampler = named_sampler(shown.task.card.config)
        print_document(console, shown.document, shown.instance, shown.tokens, shown.examples, sampler)
    return 0
