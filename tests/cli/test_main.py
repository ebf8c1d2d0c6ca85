"""The door: commands, help, how options are written, and what every ending looks like."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from assay.cli.main import COMMANDS, main, usage, with_underscores
from assay.core.version import __version__

Cli = Callable[..., Any]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: assay {command}")
    assert "--debug shows tracebacks" in done.out


def test_help_names_every_command(cli: Cli) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        done = cli(*words)
        assert (done.code, done.out) == (0, usage())
    assert all(f"  {command} " in usage() for command in COMMANDS)


def test_no_words_are_a_wrong_call(cli: Cli) -> None:
    assert cli() == type(cli("--help"))(2, usage(), "")


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out == f"assay {__version__}\n"


def test_dashes_and_underscores_are_alike() -> None:
    given = ["--model-args", "a-b=c", "--output-path=x-y", "-o", "--", "--limit"]
    assert with_underscores(given) == ["--model_args", "a-b=c", "--output_path=x-y", "-o", "--", "--limit"]


def test_an_unknown_command_is_reported_with_the_near_ones(cli: Cli) -> None:
    done = cli("rnu", "--model", "dummy")
    assert done.code == 2
    assert done.err == 'error: unknown command "rnu" (did you mean "run"?). See: assay --help\n'


def test_unknown_options_are_reported_together_and_before_missing_ones(cli: Cli) -> None:
    done = cli("run", "--modell", "dummy", "--taks=demo")
    assert done.code == 2
    assert 'error: --modell: unknown option (did you mean "--model"' in done.err
    assert 'error: --taks: unknown option (did you mean "--tasks"' in done.err
    assert "required" not in done.err


def test_missing_options_are_reported(cli: Cli) -> None:
    done = cli("run", "--model", "dummy")
    assert done.code == 2
    assert "the following arguments are required: --tasks" in done.err
    assert "See: assay run --help" in done.err


def test_options_are_not_guessed_from_their_beginnings(cli: Cli) -> None:
    done = cli("run", "--model", "dummy", "--tasks", "demo_cloze", "--lim", "3")
    assert (done.code, "--lim: unknown option" in done.err) == (2, True)


def test_a_call_without_command_means_run(cli: Cli, task_folder: Any) -> None:
    done = cli("--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    assert done.code == 0
    assert "colours" in done.out


def test_main_leaves_the_signal_handlers_as_they_were(cli: Cli) -> None:
    before = signal.getsignal(signal.SIGTERM)
    cli("ls", "metrics")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_unforeseen_error_is_called_a_bug(process: Cli) -> None:
    done = process("run", "--model", "acme/broken", "--tasks", "demo_cloze")
    assert done.code == 1
    assert done.err.splitlines()[-2] == "bug: RuntimeError: the plugin fell over"
    assert "--debug shows where it happened" in done.err
    assert "Traceback" not in done.err


def test_debug_shows_the_traceback(process: Cli) -> None:
    done = process("run", "--model", "acme/broken", "--tasks", "demo_cloze", "--debug")
    assert done.code == 1
    assert "Traceback" in done.err and "acme_models.py" in done.err


def test_debug_shows_the_traceback_of_a_user_error_too(cli: Cli) -> None:
    from assay.core.errors import UnknownName

    with pytest.raises(UnknownName):
        main(["run", "--model", "dummy", "--tasks", "nowhere", "--debug"])


def test_a_reader_that_leaves_early_is_not_an_error(environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m assay ls metrics | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["ls", "metrics"], ["ls", "metrics", "--json"], ["run", "--help"]])
def test_a_closed_pipe_is_not_an_error(start: Cli, words: list[str]) -> None:
    with start(*words) as running:
        running.stdout.close()
        errors = running.stderr.read()
    assert (running.returncode, errors) == (0, "")


def test_a_terminal_of_plain_letters_gets_question_marks(environment: dict[str, str], start: Cli) -> None:
    environment["PYTHONIOENCODING"] = "ascii"
    with start("run", "--model", "dummy", "--tasks", "demo_cloze", "--limit", "2") as running:
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "acc" in out and "?" in out


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_closed_stream_is_not_an_error(environment: dict[str, str], stream: str) -> None:
    command = f"{sys.executable} -m assay run --model dummy --tasks demo_cloze --limit 2 {stream}>&-"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "bug" in done.stderr) == (0, False)


@pytest.mark.parametrize("words", ["ls metrics", "ls metrics --json", "run --model dummy --tasks demo_cloze"])
def test_a_full_disk_on_standard_output_is_reported(environment: dict[str, str], words: str) -> None:
    command = f"{sys.executable} -m assay {words} > /dev/full"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    expected = "error: standard output: could not be written: No space left on device. Make room and try again"
    assert done.stderr.splitlines()[-1] == expected


def test_importing_the_door_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "rich", "yaml", "datasets")
    code = f"import sys, assay.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
