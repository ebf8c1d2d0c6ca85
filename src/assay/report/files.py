"""Result files in lm-eval's names and shape, with ours added beside them. Written whole or not at all.

<output_path>/<model>/results_<time>.json      every score; our own block under the key "assay"
<output_path>/<model>/samples_<task>_<time>.jsonl   one line per document and pipeline
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, OutputError
from assay.core.results import RunResult
from assay.core.writing import whole_file
from assay.report.harness_shape import plain, results_data, sample_lines
from assay.report.names import file_name, model_name

_AFTER_A_RUN = "Every answer is safe in the store: run the same command with another --output_path"


def write_results(
    result: RunResult, output_path: str | Path, log_samples: bool, audit: Mapping[str, Any] | None = None
) -> list[Path]:
    """Writes the result file, and the sample files when asked. Any failure is an error, never a shrug.

    Args:
        result: the run.
        output_path: a folder, or the name of a `.json` file to which the time is added.
        log_samples: whether to write the samples too.
        audit: how answers were read, to be written with the results.
    """
    when = datetime.now().isoformat().replace(":", "-")
    target = Path(output_path).expanduser()
    if target.suffix == ".json":
        folder, results_name = target.parent, f"{target.stem}_{when}.json"
    else:
        folder = target / file_name(model_name(result.spec.model, result.spec.model_args))
        results_name = f"results_{when}.json"
    hashes: dict[str, str] = {}
    written = []
    if log_samples:
        for task, name in zip(result.tasks, different_names(task.name for task in result.tasks), strict=True):
            path = folder / f"samples_{name}_{when}.jsonl"
            lines, digest = sample_lines(task)
            _write_lines(path, lines)
            hashes[task.name] = digest()
            written.append(path)
    results_path = folder / results_name
    text = json.dumps(results_data(result, hashes, audit), indent=2, ensure_ascii=False, default=plain)
    _write_lines(results_path, [text])
    return [results_path, *written]


def write_text(path: Path, text: str) -> Path:
    """Writes a whole file; gives its path."""
    _write_lines(path, [text.removesuffix("\n")])
    return path


def different_names(names: Iterable[str]) -> list[str]:
    """Each name as part of a file name; a number is added where two names would share a file."""
    found: dict[str, None] = {}
    for name in names:
        base = candidate = file_name(name)
        number = 2
        while candidate in found:
            candidate, number = f"{base}_{number}", number + 1
        found[candidate] = None
    return list(found)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with _explained(path), whole_file(path) as stream:
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


def check_output_path(output_path: str | Path) -> None:
    """Fails early when the place for results cannot be written to."""
    target = Path(output_path).expanduser()
    folder = target.parent if target.suffix == ".json" else target
    with _explained(folder, "Choose another --output_path"):
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".probe-", dir=folder)
        os.close(handle)
        os.unlink(temporary)
