"""The command line, from the project's root: python -m parity COMMAND [options]. See: python -m parity --help.

Exit codes: 0 nothing differs, 1 something does, 2 user error.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from assay.core.atomic_files import cache_folder
from assay.core.errors import AssayError, Fault, UserError
from assay.models.download.named import NAMED_MODELS, locate
from parity.compare import Tolerance
from parity.files import compare_files, record_files
from parity.hub import SHARED, served_hub
from parity.installation import VARIABLE, LmEval, find_lm_eval
from parity.job import Case, Job
from parity.library import (
    both_jobs,
    compare_library,
    is_equal,
    library_pairs,
    library_tasks,
    outputs_of,
    print_library,
    record_library,
    run_library,
)
from parity.library_data import prepare_data
from parity.lifetime import alone_in
from parity.loading import compare_loading
from parity.recording import record
from parity.served import compare_served
from parity.server_process import SERVERS, VARIABLES
from parity.servers import CASES, compare_servers
from parity.table import ReportLimits, is_proven, outcomes, print_outcomes, write_files
from parity.workers import Output, run_workers

SYSTEM = "You are a careful assistant. Answer briefly."
# One task of each kind: choices, one prompt per choice, generation, log-likelihood, a prefix, a description.
CHAT_TASKS = "arc_easy,winogrande,gsm8k,lambada_openai,arc_challenge_chat,mmlu_anatomy,bbh_cot_fewshot_snarks,wikitext"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m parity", description="Compares Assay with lm-eval, document by document.")
    commands = made.add_subparsers(
        dest="command", required=True, metavar="requests|scores|chat|library|loading|files|servers|served|record"
    )
    requests = commands.add_parser("requests", help="compare requests: prompts, continuations, settings, targets")
    _add_common(requests, shots="0,3")
    chat = commands.add_parser("chat", help="compare requests with a chat template and a system instruction")
    _add_common(chat, shots="0,3", tasks=CHAT_TASKS)
    chat.add_argument("--model", default="smollm2", help="name or folder of a model with a template (%(default)s)")
    scores = commands.add_parser("scores", help="compare scores: filters, metrics, standard errors")
    _add_common(scores, shots="own")
    scores.add_argument("--model", help="stories260k, smollm2 or a model's folder, in float32 (default: scripted)")
    scores.add_argument(
        "--max-gen-toks", type=int, metavar="N", help="with --model: generate N tokens, not the task's own number"
    )
    scores.add_argument("--bootstrap-iters", type=int, default=1000, help="resamples per error (%(default)s)")
    library = commands.add_parser("library", help="compare the library's tasks with lm-eval's of the same name")
    _add_common(library, shots="own,3")
    library.add_argument("--first", action="store_true", help="one task of every file of the library")
    library.add_argument("--record", type=Path, metavar="FILE", help="write the table as JSON, for docs/benchmarks.md")
    loading = commands.add_parser("loading", help="build lm-eval's whole tree with its code, without data")
    _add_python(loading)
    _add_output(loading)
    _add_python(
        commands.add_parser("files", help="compare result and sample files, key by key, and the flags of the command")
    )
    servers = commands.add_parser("servers", help="compare the model hf with the same model behind a real server")
    _add_servers(servers)
    client = commands.add_parser("served", help="lm-eval's client against assay serve, and lm-eval's own backend")
    _add_python(client)
    client.add_argument("--shared", type=Path, default=SHARED, help="folder with data/ and tools/ (%(default)s)")
    client.add_argument("--docs", type=int, metavar="N", help="documents per task, if fewer than the command's own")
    _add_python(commands.add_parser("record", help="rewrite the golden files of the ordinary tests"))
    return made


def _add_python(command: argparse.ArgumentParser) -> None:
    whose = f"a Python with lm-eval (default: {VARIABLE}, else installed once)"
    command.add_argument("--lm-eval-python", metavar="PYTHON", help=whose)


def _add_servers(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--server", required=True, choices=SERVERS, help="the server; it is started and ended")
    whose = ", ".join(f"{variable} for {name}" for name, variable in VARIABLES.items())
    add("--server-python", metavar="PYTHON", help=f"a Python with the server (default: the variable {whose})")
    add("--docs", type=int, default=20, metavar="N", help="documents per task (%(default)s)")
    add("--data", type=Path, metavar="DIR", help="folder of datasets made by assay data get (default: the Hub)")
    add("--cases", default="", help="a,b of: " + ", ".join(case.name for case in CASES) + " (default: all)")


def _add_output(command: argparse.ArgumentParser) -> None:
    where = "output folder (default: in the cache folder)"
    command.add_argument("--out", type=Path, metavar="FOLDER", help=where)
    command.add_argument("--most", type=int, default=40, metavar="N", help="differences to print (%(default)s)")


def _add_common(command: argparse.ArgumentParser, shots: str, tasks: str | None = None) -> None:
    _add_python(command)
    _add_output(command)
    add = command.add_argument
    add("--shared", type=Path, default=SHARED, help="folder with data/ and tools/ (%(default)s)")
    add("--tasks", default=tasks, help=f"a,b or @file with one name per line (default: {tasks or 'lm_eval_tasks.txt'})")
    add("--docs", type=int, default=25, metavar="N", help="documents per task (%(default)s)")
    add("--shots", default=shots, help='numbers of examples; "own" for the task\'s (%(default)s)')
    add("--include-path", "--include_path", action="append", default=[], help="a folder with more task files")
    add("--no-hub", action="store_true", help="do not serve a hub: the tasks' data is local")
    add("--resume", action="store_true", help="keep Assay's records of an earlier run, too (lm-eval's always are)")
    add("--fresh", action="store_true", help="run lm-eval again")
    add("--compare-only", action="store_true", help="run nothing; compare the existing records")
    add("--all", action="store_true", help="list every task, not only those that differ")


def task_names(requested: str | None, shared: Path) -> tuple[str, ...]:
    """The names given by --tasks, each once."""
    text = requested if requested is not None else f"@{shared / 'data' / 'lm_eval_tasks.txt'}"
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.is_file():
            raise UserError(Fault("--tasks", f"no file {path}", "@ and a file with one name per line"))
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        lines = [name.strip() for name in text.split(",")]
    names = tuple(dict.fromkeys(filter(None, lines)))
    if not names:
        raise UserError(Fault("--tasks", "names no task", "a,b or @file"))
    return names


def cases_of(command: str, shots: str) -> tuple[Case, ...]:
    """The variants of every task."""
    try:
        counts = [None if word.strip() == "own" else int(word) for word in shots.split(",")]
    except ValueError as error:
        raise UserError(Fault("--shots", f"is {shots!r}", 'numbers such as 0,3, or "own"')) from error
    if command != "chat":
        return tuple(Case(count) for count in counts)
    spoken = itertools.product(counts, (True, False), (None, SYSTEM))
    chats = tuple(Case(count, True, multiturn, system) for count, multiturn, system in spoken)
    return (*chats, *(Case(count, system=SYSTEM) for count in counts))


def model_folder(name: str | None, shared: Path) -> str | None:
    """The folder of a named model; smollm2 is fetched at first use."""
    if name is None:
        return None
    own = shared / "data" / "models" / name
    if name in NAMED_MODELS:
        return str(locate(NAMED_MODELS[name]))
    folder = own if own.is_dir() else Path(name)
    if not folder.is_dir():
        raise UserError(Fault("--model", f'no model "{name}"', "stories260k, smollm2 or a folder"))
    return str(folder.resolve())


def make_job(requested: argparse.Namespace, lm_eval: LmEval) -> Job:
    model = getattr(requested, "model", None)
    folders = tuple(str(Path(folder).resolve()) for folder in requested.include_path)
    return Job(
        mode="scores" if requested.command == "scores" else "requests",
        tasks=task_names(requested.tasks, requested.shared),
        cases=cases_of(requested.command, requested.shots),
        documents=requested.docs,
        tasks_folder=lm_eval.tasks_folder,
        include_path=folders,
        model=model_folder(model, requested.shared),
        bootstrap_iters=getattr(requested, "bootstrap_iters", 0),
        max_tokens=getattr(requested, "max_gen_toks", None),
    )


def tolerance_of(requested: argparse.Namespace) -> Tolerance:
    """Two programs that multiply the same matrices agree to about 1e-5 per answer; less closely for long texts."""
    has_weights = requested.command == "scores" and requested.model is not None
    return Tolerance(loglikelihood=1e-4, rolling=2e-3) if has_weights else Tolerance()


def output_of(requested: argparse.Namespace) -> Output:
    """The folder of a comparison; by default one per command and model."""
    model = Path(getattr(requested, "model", None) or "").name
    default = cache_folder() / "parity" / "-".join(filter(None, [requested.command, model]))
    output = Output((requested.out or default).resolve())
    output.folder.mkdir(parents=True, exist_ok=True)
    return output


def run(requested: argparse.Namespace, job: Job, lm_eval: LmEval, output: Output) -> None:
    """Lets both sides write the records that are missing or outdated."""
    if not requested.resume:
        output.records("assay").unlink(missing_ok=True)
    if requested.fresh:
        output.records("reference").unlink(missing_ok=True)
    with nullcontext(None) if requested.no_hub else served_hub(requested.shared) as hub:
        run_workers(job, lm_eval, output, hub)


def compare(requested: argparse.Namespace) -> bool:
    """The whole comparison; returns whether nothing differs."""
    requested.shared = requested.shared.resolve()
    lm_eval = find_lm_eval(requested.lm_eval_python)
    job, output = make_job(requested, lm_eval), output_of(requested)
    with alone_in(output.folder):
        if not requested.compare_only:
            run(requested, job, lm_eval, output)
        found = list(outcomes(job, output, tolerance_of(requested)))
        write_files(found, output)
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    print_outcomes(found, output.folder, ReportLimits(requested.most, every_task=requested.all), console)
    return is_proven(found)


def compare_with_library(requested: argparse.Namespace) -> bool:
    """The comparison of the library; returns whether nothing differs where the cards say so."""
    requested.shared = requested.shared.resolve()
    lm_eval, output = find_lm_eval(requested.lm_eval_python), output_of(requested)
    names = [] if requested.tasks is None else task_names(requested.tasks, requested.shared)
    pairs = library_pairs(names, lm_eval, requested.first)
    outputs = outputs_of(output.folder)
    with alone_in(output.folder):
        tasks = library_tasks([pair.ours for pair in pairs])
        folder, data = prepare_data(tasks, requested.shared, output.folder)
        jobs = both_jobs(pairs, cases_of("library", requested.shots), requested.docs, lm_eval, data)
        if not requested.compare_only:
            with nullcontext(None) if requested.no_hub else served_hub(requested.shared, folder) as hub:
                run_library(jobs, outputs, lm_eval, hub)
        found = compare_library(pairs, jobs, outputs)
    if requested.record is not None:
        record_library(found, requested.record)
    print_library(found, Console() if sys.stdout.isatty() else Console(width=200), requested.all)
    return is_equal(found)


def answer(requested: argparse.Namespace) -> bool:
    """Runs the command; returns whether nothing differs."""
    if requested.command == "record":
        record(requested.lm_eval_python)
        record_files(requested.lm_eval_python)
        return True
    if requested.command == "files":
        return compare_files(requested.lm_eval_python)
    if requested.command == "servers":
        names = [name.strip() for name in requested.cases.split(",") if name.strip()]
        if unknown := [name for name in names if name not in [case.name for case in CASES]]:
            raise UserError(Fault("--cases", f"unknown: {', '.join(unknown)}", ", ".join(case.name for case in CASES)))
        return compare_servers(requested.server, requested.server_python, requested.docs, requested.data, names)
    if requested.command == "served":
        return compare_served(requested.lm_eval_python, requested.shared, requested.docs)
    if requested.command == "library":
        return compare_with_library(requested)
    if requested.command == "loading":
        return compare_loading(requested.lm_eval_python, output_of(requested), requested.most)
    return compare(requested)


def main() -> int:
    try:
        return 0 if answer(parser().parse_args()) else 1
    except AssayError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
