"""Task files that are far too large: refused in a moment, with what to do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from assay.core.errors import TaskFileError
from assay.tasks.lm_eval.file.yaml_reader import MAX_BYTES, TopLevelKeyReader, read_task_file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("task: a\ndescription: '" + "x" * 10_000_000 + "'\n", "has 10.0 MB; expected a task file of at most 5 MB"),
        ("task: a\nl:\n" + "- a\n" * 1_000_000, "holds more than 200,000 keys and items"),
        ("task: a\nl: [" + "a," * 2_000_000 + "]\n", "holds more than 200,000 keys and items"),
        ("task: a\n" + "".join(f"k{n}: v\n" for n in range(400_000)), "holds more than 200,000 keys and items"),
    ],
)
def test_a_file_of_many_megabytes_is_refused_in_a_moment(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "big.yaml"
    path.write_text(text)
    started = time.thread_time()
    for read in (lambda: read_task_file(path), lambda: TopLevelKeyReader().top_level_keys(str(path))):
        with pytest.raises(TaskFileError, match=found):
            read()
    assert time.thread_time() - started < 8


def test_a_long_description_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text("task: a\ndescription: '" + "x, " * 500_000 + "'\n")
    assert len(read_task_file(path).data["description"]) == 1_500_000
    assert path.stat().st_size < MAX_BYTES
