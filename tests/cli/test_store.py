"""`assay store check`, and what a damaged or read-only store means for other commands."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
RUN = ("run", "--model", "ngram", "--tasks", "demo_questions", "--limit", 5)


def poison(path: Path, statement: str = "UPDATE responses SET token_count = x'01' WHERE total > -60") -> int:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).rowcount


def score(out: str) -> list[str]:
    return [line for line in out.splitlines() if " acc " in line]


def test_a_poisoned_store_is_requested_again_and_then_sound(cli: Cli, tmp_path: Path) -> None:
    first = cli(*RUN)
    count = poison(tmp_path / "store.db")
    assert 0 < count < 20
    again = cli(*RUN)
    assert (again.code, score(again.out)) == (0, score(first.out))
    assert f"{count} stored answers cannot be read" in again.out
    assert f"{20 - count} already known, {count} executed" in again.out
    assert cli("store", "check").code == 0
    assert "0 executed" in cli(*RUN).out


def test_rescoring_counts_answers_that_cannot_be_read_as_failed(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN)
    poison(tmp_path / "store.db", "UPDATE responses SET total = total - 1 WHERE key = (SELECT min(key) FROM responses)")
    done = cli("rescore", "last", "-o", tmp_path / "out", "-s")
    assert done.code == 3, done.err
    assert "1 of 5 documents failed" in done.out and "1 stored answer cannot be read" in done.out
    samples = next((tmp_path / "out").rglob("samples_*.jsonl")).read_text()
    assert "the stored answer cannot be read: checksum differs" in samples
    assert "incomplete" in cli("ls", "runs").out


def test_check_names_what_cannot_be_read_and_repair_drops_it(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN)
    count = poison(tmp_path / "store.db")
    found = cli("store", "check")
    assert found.code == 2
    assert "values of the wrong type" in found.out and "assay store check --repair --store" in found.out
    repaired = cli("store", "check", "--repair")
    assert repaired.code == 0 and f"dropped: {count} answers" in repaired.out
    assert len(list(tmp_path.glob("store.db.backup-*"))) == 1
    assert cli("store", "check").code == 0
    assert f"{count} executed" in cli(*RUN).out


def test_a_damaged_file_is_named_with_the_command_that_repairs_it(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN)
    path = tmp_path / "store.db"
    content = path.read_bytes()
    root = 4096  # the second page holds the first table
    path.write_bytes(content[:root] + b"\xaa" * 4096 + content[root + 4096 :])
    done = cli(*RUN)
    assert done.code == 2 and f"assay store check --store {path}" in done.err
    assert cli("store", "check").code == 2
    assert cli("store", "check", "--repair").code == 0
    assert cli(*RUN).code == 0


def test_a_truncated_store_ends_a_run_before_the_first_request(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN)
    os.truncate(tmp_path / "store.db", 0)
    for command in (RUN, ("ls", "runs"), ("rescore", "last"), ("store", "check")):
        done = cli(*command)
        assert done.code == 2 and "has 0 bytes" in done.err


@pytest.mark.parametrize("version", [-3, 2**31 - 1, 0])
def test_a_forged_schema_version_is_a_user_error(cli: Cli, tmp_path: Path, version: int) -> None:
    cli(*RUN)
    poison(tmp_path / "store.db", f"PRAGMA user_version = {version}")
    for command in (RUN, ("ls", "runs"), ("store", "check")):
        done = cli(*command)
        assert done.code == 2 and f"schema {version}" in done.err and "bug" not in done.err


@pytest.fixture
def read_only(cli: Cli) -> Iterator[Path]:
    """A store of two runs that can only be read."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.db"
        for limit in (4, 5):
            cli(*RUN[:-1], limit, "--store", path)
        path.chmod(0o444)
        Path(name).chmod(0o555)
        yield path
        Path(name).chmod(0o755)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write anywhere: acts as nobody for a while. Other users stay who they are."""
    if not hasattr(os, "seteuid"):
        pytest.skip("needs the permissions of Unix")
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("ls", "runs"), "2 runs"),
        (("compare", "last", "last~1"), "demo_questions"),
        (("explain", "last", "last~1"), "demo_questions"),
        (("rescore", "last", "--metrics", "acc_bytes"), "is read-only"),
        (("plan", *RUN[1:]), "20"),
        (("show", "demo_questions", "--model", "ngram"), "demo_questions"),
        (("store", "check"), "everything can be read"),
    ],
)
def test_reading_commands_take_a_read_only_store(
    cli: Cli, read_only: Path, tmp_path: Path, command: tuple[Any, ...], message: str
) -> None:
    before = read_only.read_bytes()
    copy = tmp_path / "copy.db"
    copy.write_bytes(before)
    cli(*command, "--store", copy)  # what it imports may be closed to nobody
    with without_rights():
        done = cli(*command, "--store", read_only)
    assert done.code == 0, done.err
    assert message in done.out and f"in {read_only}" not in done.out
    assert read_only.read_bytes() == before and len(list(read_only.parent.iterdir())) == 2


def test_a_run_on_a_read_only_store_ends_before_its_model_is_opened(cli: Cli, read_only: Path) -> None:
    with without_rights():
        done = cli(
            "run", "--model", "hf", "--model_args", "pretrained=/nowhere", "--tasks", "demo", "--store", read_only
        )
    assert done.code == 2 and "nowhere" not in done.err
    assert "Permission denied" in done.err and "Copy the store" in done.err
