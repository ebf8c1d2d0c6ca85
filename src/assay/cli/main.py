"""`assay`: finds the command, reads its options, runs it, and turns every error into a message and an exit code.

Exit codes: 0 done, 1 bug, 2 user error, 3 finished but some requests failed or a task could not be scored, 4 worse than
the baseline (compare with --fail_if_worse), 130 interrupted (Ctrl-C), 143 ended by SIGTERM, 129 by SIGHUP (its terminal
was closed).
Nothing heavy is imported here: a command's own module is loaded when it is called.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TextIO, cast

from assay.core.interrupts import exit_code, raise_on_signals, received_signal

COMMANDS = {
    "run": "evaluate one or more models on tasks",
    "plan": "dry run: number of requests and tokens, and expected time",
    "matrix": "evaluate several models on several tasks, side by side",
    "finetune": "train a model on tasks; the result is a new model with a name",
    "methods": "compare the methods of scoring multiple-choice answers",
    "rescore": "apply other metrics or filters to a recorded run, without its model",
    "compare": "compare recorded runs with paired tests",
    "explain": "explain why two recorded runs have different scores",
    "plot": "draw a figure of a recorded run",
    "probe": "ask a server what it can score, and why not the rest",
    "serve": "serve a model with OpenAI's HTTP interface",
    "show": "show the prompt, answers and tokens of a document",
    "task": "make a task file from a data file: guesses the format, shows prompts, checks it",
    "check": "validate task files: all faults at once, with file and line",
    "data": "fetch the datasets of tasks into a folder, list and check it",
    "store": "check the file of answers and runs, and repair it",
    "ls": "list tasks, groups, tags, models, metrics, filters, styles, methods, profiles, runs",
}
# Commands that can be resumed → what they have saved.
_SAVED = {
    **dict.fromkeys(("run", "matrix", "methods", "rescore"), "answers"),
    "finetune": "checkpoints",
    "data": "datasets",
}


def usage() -> str:
    """The text of `assay --help`."""
    commands = "\n".join(f"  {name:<8} {text}" for name, text in COMMANDS.items())
    return f"""usage: assay [--version] [--help] COMMAND …

How well does a language model do on a benchmark, how sure are we, and can you check it?

commands:
{commands}

Every command has its own help: assay run --help
Options may be written with - or _: --model-args and --model_args are the same.

example: assay run --model smollm2 --tasks demo
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    _repair_streams()
    given = sys.argv[1:] if arguments is None else arguments
    with raise_on_signals(until_exit=arguments is None), _hiding_secrets(given):
        try:
            code = _dispatch(given)
            sys.stdout.flush()
            return code
        except BaseException as error:
            return _ended_by(error, given)


def _ended_by(error: BaseException, given: list[str]) -> int:
    """Prints what ended a command early; returns the exit code."""
    number = received_signal() or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
    if number is not None:  # whatever a library turned it into
        name = "" if number == signal.SIGINT else f" ({signal.Signals(number).name})"
        _say(f"\ninterrupted{name}{_saved(given)}\n")
        return exit_code(number)
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough
        _silence_output()
        return 0
    from assay.options.parser import Finished

    if isinstance(error, Finished):
        return 0
    if "--debug" in given:
        sys.excepthook = _show_traceback
        raise error
    if isinstance(error, SystemExit):
        _say(f"\nended by sys.exit({error.code!r}) in the code of a model, task or plugin{_saved(given)}\n")
        return exit_code(signal.SIGINT)
    return _explain(error)


def _saved(given: list[str]) -> str:
    """Advice on resuming an interrupted command; empty if it cannot be resumed."""
    saved = _SAVED.get("run" if not given or given[0].startswith("-") else given[0])
    return f"; {saved} so far are saved: run the same command again to resume" if saved else ""


def _say(text: str) -> None:
    """Writes to standard error, which may lead to a terminal that is gone."""
    from assay.core.secrets import redacted_text

    try:
        sys.stderr.write(redacted_text(text))
        sys.stderr.flush()
    except (OSError, ValueError):
        _silence(sys.stderr)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _silence(sys.stdout)


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0 if given else 2
    if given[0] in ("-V", "--version", "version"):
        from assay.core.version import __version__

        sys.stdout.write(f"assay {__version__}\n")
        return 0
    if given[0].startswith("-"):  # scripts that call lm_eval without a command mean `run`
        given = ["run", *given]
    return _run_command(given[0], with_underscores([word for word in given[1:] if word != "--debug"]))


def _silence_output() -> None:
    """Discards standard output from here on, so that the interpreter does not fail on it when it exits."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    import os

    with suppress(OSError, ValueError):  # no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _repair_streams() -> None:
    """Characters that a terminal lacks become question marks, and output to a closed stream is discarded."""
    import io
    import os

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (stays open to the end)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


@contextmanager
def _hiding_secrets(given: list[str]) -> Iterator[None]:
    """Redacts known secrets, including those of the command line, in everything printed within the block."""
    from assay.core.atomic_files import RedactingStream
    from assay.core.secrets import remember_command

    remember_command(given)
    earlier = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", RedactingStream(stream)) for stream in earlier)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = earlier


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import traceback

    from assay.core.secrets import redacted_text

    sys.stderr.write(redacted_text("".join(traceback.format_exception(kind, error, trace))))


def with_underscores(arguments: list[str]) -> list[str]:
    """The arguments with `--some-option` written `--some_option`; values stay as they are."""
    found = []
    for argument in arguments:
        if argument.startswith("--") and len(argument) > 2:
            name, equals, value = argument[2:].partition("=")
            argument = "--" + name.replace("-", "_") + equals + value
        found.append(argument)
    return found


def _run_command(name: str, arguments: list[str]) -> int:
    import importlib

    if name not in COMMANDS:
        from assay.core.errors import Fault
        from assay.options.hints import command_hint

        found = f'unknown command "{name}"{command_hint(name, COMMANDS)}'
        sys.stderr.write(f"error: {Fault('', found, next='See: assay --help')}\n")
        return 2
    from assay.options.parser import parse_command

    line = parse_command(name, arguments)
    code: int = importlib.import_module(f"assay.cli.{name}").main(line)
    return code


def _explain(error: BaseException) -> int:
    import errno

    from assay.core.errors import AssayError, UserError
    from assay.core.secrets import redacted_text

    if (
        isinstance(error, OSError)
        and error.filename is None
        and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    ):
        _silence_output()
        sys.stderr.write(f"error: standard output: could not be written: {error.strerror}. Make room and try again\n")
        return 2
    if isinstance(error, UserError):
        for fault in error.faults:
            sys.stderr.write(f"error: {fault}\n")
        return error.exit_code
    kind = "" if isinstance(error, AssayError) else f"{type(error).__name__}: "
    sys.stderr.write(f"bug: {kind}{redacted_text(str(error))}\n")
    sys.stderr.write("This is a bug in Assay or in a plugin; --debug shows where it happened.\n")
    return 1
