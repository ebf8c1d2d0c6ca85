"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.writing import whole_file


def test_the_file_appears_at_the_end_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as stream:
        stream.write("a\n\ud800")
        assert not path.exists()
    assert path.read_bytes() == b"a\n\\ud800"


def test_an_error_keeps_the_old_file_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as stream:
        stream.write("new")
        raise KeyboardInterrupt
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("file.txt", "old")]
