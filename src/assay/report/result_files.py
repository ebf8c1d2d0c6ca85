"""Result files with lm-eval's names and format, with ours added beside them. Written whole or not at all.

<output_path>/<model>/results_<time>.json      every score; our own block under the key "assay"
<output_path>/<model>/samples_<task>_<time>.jsonl   one line per document and pipeline
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from assay.core.atomic_files import atomic_write
from assay.core.errors import AssayError, Fault, OutputError, UserError
from assay.core.requests import Message
from assay.core.results import Problem, RunResult, TaskResult
from assay.report.safe_names import different_names, file_name, model_name

Maker = Callable[[Path], object]
_AFTER_A_RUN = "All answers are stored: rerun the command with another --output_path"


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files that were written, and why others were not."""

    paths: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: WrittenFiles) -> WrittenFiles:
        return WrittenFiles((*self.paths, *other.paths), (*self.problems, *other.problems))

    def checked(self) -> list[Path]:
        """The paths; raises if a file is missing."""
        for problem in self.problems:
            if problem.is_bug:
                raise AssayError("; ".join(each.text for each in self.problems)) from problem.error
        if self.problems:
            raise OutputError(*(fault for problem in self.problems for fault in problem.faults))
        return list(self.paths)


def write_each(files: Iterable[tuple[Path, Maker]]) -> WrittenFiles:
    """Writes files one after the other: a failure affects that file only.

    Args:
        files: each path with the function that writes it.
    """
    paths, problems = [], []
    for path, make in files:
        try:
            make(path)
            paths.append(path)
        except UserError as error:
            problems.append(Problem(error.faults, error))
        except Exception as error:  # a bug in the function that makes it
            found = f"could not be made: {type(error).__name__}: {error}"
            problems.append(Problem((Fault(str(path), found),), error))
    return WrittenFiles(tuple(paths), tuple(problems))


def write_results(
    result: RunResult, output_path: str | Path, log_samples: bool, audit: Mapping[str, Any] | None = None
) -> list[Path]:
    """Writes what `written_results` does. Raises any failure after everything else is written."""
    return written_results(result, output_path, log_samples, audit).checked()


def written_results(
    result: RunResult, output_path: str | Path, log_samples: bool, audit: Mapping[str, Any] | None = None
) -> WrittenFiles:
    """Writes the result file, and the sample files if `log_samples` is set.

    Args:
        result: the run.
        output_path: a folder, or the name of a `.json` file to which the time is added.
        log_samples: whether to write the samples too.
        audit: the extraction audit, to be written with the results.
    """
    from assay.report.lm_eval_results import plain, results_data, sample_lines  # most users of this module write tables

    when = datetime.now().isoformat().replace(":", "-")
    target = Path(output_path).expanduser()
    if target.suffix == ".json":
        folder, results_name = target.parent, f"{target.stem}_{when}.json"
    else:
        folder = target / file_name(model_name(result.spec.model, result.spec.model_args))
        results_name = f"results_{when}.json"
    hashes: dict[str, str] = {}

    def write_samples(task: TaskResult) -> Maker:
        def write(path: Path) -> None:
            lines, digest = sample_lines(task, result.rendered)
            _write_lines(path, lines)
            hashes[task.name] = digest()

        return write

    def write_scores(path: Path) -> None:
        text = json.dumps(results_data(result, hashes, audit), indent=2, ensure_ascii=False, default=plain)
        _write_lines(path, [text])

    names = different_names(task.name for task in result.tasks) if log_samples else []
    samples = write_each(
        (folder / f"samples_{name}_{when}.jsonl", write_samples(task))
        for task, name in zip(result.tasks, names, strict=False)
    )
    return write_each([(folder / results_name, write_scores)]) + samples


def sample_notices(result: RunResult) -> list[str]:
    """Notices about sample files whose conversations are messages rather than the model's rendered text."""
    # A model behind HTTP may leave conversations to its server.
    if not result.spec.options.chat.apply or result.rendered((Message("user", "?"),)) is not None:
        return []
    found = "sample files hold messages instead of rendered prompts, so prompt_hash is not lm-eval's"
    why = "only the run's model renders them, and it is not opened here" if "parent" in result.manifest else ""
    advice = "rerun the command of the run to get them: its answers are stored"
    return [f"{found}: {why}; {advice}" if why else f"{found}: the model has no chat template of its own"]


def write_text(path: Path, text: str) -> Path:
    """Writes a whole file; returns its path."""
    _write_lines(path, [text.removesuffix("\n")])
    return path


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with _explained(path), atomic_write(path) as stream:
        for line in lines:
            stream.write(line)
            stream.write("\n")


@contextmanager
def _explained(path: Path, advice: str = _AFTER_A_RUN) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            Fault(
                str(path),
                f"could not be written: {error.strerror or error}",
                next=advice,
            )
        ) from error


def names_file(output_path: str | Path, suffixes: Iterable[str]) -> bool:
    """Whether `--output_path` names one file, by its suffix; otherwise it names a folder."""
    target = Path(output_path).expanduser()
    return target.suffix in suffixes and not target.is_dir()


def check_output_path(output_path: str | Path, suffixes: Iterable[str] | None = None) -> None:
    """Raises early if results cannot be written to the path.

    Args:
        output_path: a folder, or a file with one of the suffixes.
        suffixes: suffixes of a report's files; None for result files, where `.json` always names a file.
    """
    if output_path == "":
        raise OutputError(Fault("--output_path", "is empty", "a folder", 'The current folder is "."'))
    target = Path(output_path).expanduser()
    is_file = target.suffix == ".json" if suffixes is None else names_file(target, suffixes)
    check_folder(target.parent if is_file else target, "Choose another --output_path")


@dataclass(frozen=True, slots=True)
class ReportFormats:
    """The formats that a report is printed and written in.

    Attributes:
        name: name of its files, without the suffix.
        formats: name of a format → suffix of its file, and the function that makes the text.
    """

    name: str
    formats: Mapping[str, tuple[str, Callable[[Any], str]]]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes by which `--output_path` names one file."""
        return tuple(suffix for suffix, _ in self.formats.values())

    def text(self, name: str, found: Any) -> str:
        """The report in a format; it ends with a line break."""
        return self.formats[name][1](found).removesuffix("\n") + "\n"

    def write(self, found: Any, output_path: str | Path) -> WrittenFiles:
        """Writes the file that `--output_path` names, or all files into the folder that it names."""
        target = Path(output_path).expanduser()
        names = {suffix: name for name, (suffix, _) in self.formats.items()}
        if names_file(target, names):
            files = {target: names[target.suffix]}
        else:
            files = {target / f"{self.name}{suffix}": name for suffix, name in names.items()}
        return write_each((path, self._maker(name, found)) for path, name in files.items())

    def _maker(self, name: str, found: Any) -> Maker:
        return lambda path: write_text(path, self.text(name, found))


def with_file_keys(data: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """The data with the keys that files have had since their first version: name of a field → key of the file."""
    return {keys.get(key, key): value for key, value in data.items()}


def check_file(path: str | Path, flag: str) -> None:
    """Raises early if a file cannot be written.

    Args:
        path: the file.
        flag: the option that names it, for errors.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise OutputError(Fault(flag, f'"{path}" is a folder', "the name of a file"))
    check_folder(target.parent, f"Choose another {flag}")


def check_folder(folder: Path, advice: str) -> None:
    """Raises if no file can be written in a folder; creates the folder if it is missing."""
    with _explained(folder, advice):
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".probe-", dir=folder)
        os.close(handle)
        os.unlink(temporary)
