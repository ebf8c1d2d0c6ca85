"""`assay`: finds the command, runs it, and turns every error into a message and an exit code.

Exit codes: 0 done, 1 bug, 2 user error, 3 finished but some requests failed, 4 worse than the baseline (compare with
--fail_if_worse), 130 interrupted.
Nothing heavy is imported here: a command's own module is loaded when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

COMMANDS = {
    "run": "evaluate one or more models on tasks",
    "plan": "dry run: what would be asked, and how long it would take",
    "matrix": "several models on several tasks, side by side",
    "finetune": "train a model on tasks; the result is a new model with a name",
    "methods": "every way of picking an answer, side by side",
    "rescore": "other metrics or filters on the answers of a run, without its model",
    "compare": "two or more runs, document by document: which is better beyond chance",
    "explain": "why two runs have different numbers",
    "show": "a document as it would be asked: prompt, answers, tokens",
    "check": "validate task files: every fault at once, with file and line",
    "ls": "list tasks, groups, tags, models, metrics, filters, styles, methods, profiles, runs",
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
    """Runs the command line; gives the exit code."""
    _mend_streams()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = _dispatch(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _silence_output()
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; what was answered so far is kept: run the same command again to go on\n")
        return 130
    except Exception as error:
        if "--debug" in given:
            raise
        return _explain(error)


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
    """Standard output leads nowhere from here on, so that the interpreter does not stumble over it at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _mend_streams() -> None:
    """A terminal that knows no arrows gets question marks, and a closed stream swallows what it is told."""
    import io
    import os

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (stays open to the end)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


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
        from assay.core.errors import did_you_mean

        sys.stderr.write(f'error: unknown command "{name}"{did_you_mean(name, COMMANDS)}. See: assay --help\n')
        return 2
    try:
        with _interrupted_by_termination():
            code: int = importlib.import_module(f"assay.cli.{name}").main(arguments)
            return code
    except SystemExit as ending:
        # argparse ends so after --help; rich ends so when the reader of a pipe has seen enough.
        if isinstance(ending.__context__, BrokenPipeError):
            raise ending.__context__ from None
        return int(ending.code or 0)


@contextmanager
def _interrupted_by_termination() -> Iterator[None]:
    """A polite request to end (SIGTERM) ends a run as Ctrl-C does: the record is closed properly."""
    import signal
    import threading

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _explain(error: Exception) -> int:
    import errno

    from assay.core.errors import AssayError, UserError

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
    sys.stderr.write(f"bug: {kind}{error}\nThis is a fault of Assay or of a plugin; --debug shows where it happened.\n")
    return 1
