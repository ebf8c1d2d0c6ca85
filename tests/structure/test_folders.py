"""The project names no folder of one machine: a path is relative to the checkout, or a value that the reader gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("src", "docs", "tests", "bench", "parity", "scripts", ".ci")
SUFFIXES = {"", ".c", ".cfg", ".css", ".html", ".ini", ".js", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
# Roots that exist on somebody's machine, when a path goes on below them; and siblings of somebody's checkout.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.\-/~:$}>])/(?:work|tmp|home|root|Users|mnt|opt|scratch|workspace|private|var/tmp)/[\w.\-]"
    r"|\b[A-Z]:\\+Users\b|\.\./(?:shared|venvs)\b"
)


def files() -> list[Path]:
    """The project's texts, this page left out."""
    inside = [path for part in PARTS for path in (ROOT / part).rglob("*")]
    found = [*ROOT.glob("[!.]*"), *(path for path in inside if "__pycache__" not in path.parts)]
    return [path for path in found if path.is_file() and path.suffix in SUFFIXES and path != Path(__file__)]


def machine_folders(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if OF_ONE_MACHINE.search(line)]


@pytest.mark.parametrize(
    "line",
    [
        "--lm-eval-python /work/venvs/lmeval/bin/python",
        "--shared=/work/shared",
        '"/home/ann/models/m"',
        "`/tmp/out`",
        "--shared ../shared",
    ],
)
def test_a_folder_of_one_machine_is_found(line: str) -> None:
    assert machine_folders(line)


@pytest.mark.parametrize(
    "line", ["#!/usr/bin/env bash", "https://host/home/page", "~/tmp/x", "docs/work/page", "--out DIR"]
)
def test_a_path_of_any_machine_is_not(line: str) -> None:
    assert machine_folders(line) == []


def test_the_project_names_no_folder_of_one_machine() -> None:
    read = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in files()}
    assert len(read) > 500
    assert {name: lines for name, text in read.items() if (lines := machine_folders(text))} == {}
