"""`assay finetune`: train a model on tasks."""

from __future__ import annotations

import argparse

from assay.api import finetune
from assay.cli.options import (
    add_fit_options,
    add_model_options,
    add_store_option,
    add_task_options,
    fit_settings,
    make_parser,
    run_settings,
    split_names,
)
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.report.terminal import ProgressView, make_console
from assay.report.trained_model import fitted_lines


def main(arguments: list[str]) -> int:
    """Runs the command."""
    options = _parser().parse_args(arguments)
    _check(options)
    with ProgressView(make_console(stderr=True)) as view:
        fitted = finetune(
            options.model,
            split_names(options.tasks),
            fit=fit_settings(options),
            name=options.name,
            folder=options.folder,
            store=options.store,
            listener=TerminalListener(view),
            **run_settings(options),
        )
    console = make_console()
    for line in fitted_lines(fitted):
        console.print(line, markup=False, soft_wrap=True)
    return 0


# Options that change what is evaluated, not what is learnt.
_OF_RUNS = {
    "limit": "Take fewer training documents with --train_limit",
    "samples": "Take fewer training documents with --train_limit",
    "num_fewshot": "Training documents are learnt without examples before them",
    "metrics": "See --validation_metric",
    "scoring": "See --validation_metric",
    "gen_kwargs": "It acts when the model is asked: assay run",
}


def _check(options: argparse.Namespace) -> None:
    faults = [
        Fault(f"--{name}", "has no meaning in training", next=advice)
        for name, advice in _OF_RUNS.items()
        if getattr(options, name) is not None
    ]
    if faults:
        raise UserError(*faults)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(
        "finetune",
        "Trains a model on the training documents of tasks. The result is a new model with a name, which --model "
        "takes in every command. Repeating the command continues an interrupted training.",
    )
    parser.add_argument(
        "--tasks", "-t", nargs="+", required=True, metavar="TASK", help="names, groups, tags, wildcards or files"
    )
    add_model_options(parser, required=True)
    add_fit_options(parser, is_lap=False)
    add_task_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--name", metavar="NAME", help="of the new model; made from parent, tasks and method")
    output.add_argument("--folder", metavar="DIR", help="where it goes; a folder models beside the store")
    add_store_option(parser)
    return parser
