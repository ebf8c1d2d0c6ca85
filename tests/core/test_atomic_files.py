"""A file is written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from assay.core.atomic_files import atomic_write, cache_folder, private_folder
from assay.core.secrets import HIDDEN, remember


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_appears_at_the_end_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with atomic_write(path) as stream:
        stream.write("a\n\ud800")
        assert not path.exists()
    assert path.read_bytes() == b"a\n\\ud800"


def test_an_error_keeps_the_old_file_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as stream:
        stream.write("new")
        raise KeyboardInterrupt
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("file.txt", "old")]


def test_a_new_file_is_the_owners_alone_from_its_first_moment(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file.txt") as stream:
        stream.write("text")
        assert [mode(path) for path in tmp_path.iterdir()] == [0o600]
    assert mode(tmp_path / "file.txt") == 0o600


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.touch()
    path.chmod(0o640)
    with atomic_write(path) as stream:
        stream.write("new")
    assert (mode(path), path.read_text()) == (0o640, "new")


def test_a_file_among_others_has_the_usual_permissions(tmp_path: Path) -> None:
    earlier = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "file.txt", is_private=False) as stream:
            stream.write("x")
    finally:
        os.umask(earlier)
    assert mode(tmp_path / "file.txt") == 0o644


def test_a_folder_of_ours_is_the_owners_alone_and_anothers_stays(tmp_path: Path) -> None:
    private_folder(tmp_path / "deep" / "own")
    (tmp_path / "open").mkdir(mode=0o755)
    private_folder(tmp_path / "open")
    assert (mode(tmp_path / "deep" / "own"), mode(tmp_path / "open")) == (0o700, 0o755)


def test_no_known_secret_is_written(tmp_path: Path) -> None:
    remember({"token": "wr1t-c4n4ry"})
    with atomic_write(tmp_path / "file.json") as stream:
        json.dump({"text": "a wr1t-c4n4ry b", "number": 5}, stream)
    assert json.loads((tmp_path / "file.json").read_text()) == {"text": f"a {HIDDEN} b", "number": 5}


def test_the_environment_chooses_the_cache() -> None:
    assert cache_folder({"ASSAY_CACHE": "/some/where"}) == Path("/some/where")
    assert cache_folder({}).name == "assay"
