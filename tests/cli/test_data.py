"""`assay data` and `--data`: datasets are fetched from a hub on loopback, and runs read them without network."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main
from assay.data.fetched import DataReport, DatasetOutcome, Fetched
from assay.data.local_copy import CopiedFile
from assay.report.data_report import show_data_report

ROWS = [{"q": f"question {number}?", "label": number % 2} for number in range(6)]
WRITE = {
    "dataset_kwargs": "",
    "fewshot_split": "train",
    "card": "{rows: {test: 6, train: 10}}",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def command(
    environment: Mapping[str, str], *words: str, limit: int | None = None, cwd: str | None = None
) -> subprocess.Popen[str]:
    """The command line in a process of its own, in its own group; `limit` is the largest file that it may write."""
    line = [sys.executable, "-m", "assay", *words]
    if limit is not None:
        line = ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "-", *line]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        line, env={**environment, "COLUMNS": "200"}, text=True, start_new_session=True, cwd=cwd, **pipes
    )  # type: ignore[call-overload,no-any-return]


def done(environment: Mapping[str, str], *words: str, **more: Any) -> tuple[int, str, str]:
    process = command(environment, *words, **more)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def write_hub_task(write_task: Callable[..., None], task: str, dataset: str, **more: str) -> None:
    write_task(task, **{**WRITE, "dataset_path": dataset, **more})


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_data_is_fetched_once_and_read_without_network(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    fake_hub.add("me/sums", test=ROWS, train=ROWS[:2], other=ROWS)
    write_hub_task(write_task, "sums", "me/sums")
    here, data = ["--include_path", str(tmp_path / "tasks")], str(tmp_path / "data")
    code, out, _ = done(fake_hub.environment(home), "data", "get", "--tasks", "sums", "--to", data, *here)
    assert code == 0 and "train 2" in out and "fetched" in out
    kept = ["me/sums/default/assay-data.json", "me/sums/default/test.parquet", "me/sums/default/train.parquet"]
    assert names(tmp_path / "data") == kept
    fake_hub.requests.clear()
    code, out, _ = done(fake_hub.environment(home), "data", "get", "--tasks", "sums", "--to", ".", *here, cwd=data)
    assert (code, fake_hub.requests) == (0, []) and "was there" in out
    offline = {**fake_hub.environment(tmp_path / "empty"), "HF_HUB_OFFLINE": "1", "ASSAY_DATA": data}
    store = ["--store", str(tmp_path / "s.db"), "--output_path", str(tmp_path / "out.json")]
    words = ["--model", "dummy", "--tasks", "sums", "--num_fewshot", "1", *here, *store]
    code, out, err = done(offline, "run", *words)
    assert (code, fake_hub.requests) == (0, []), err
    assert "note: sums: 2 of 10 official rows of `train`" in out
    found = json.loads(next(tmp_path.glob("out*.json")).read_text())["assay"]["manifest"]["tasks"]["sums"]["data"]
    assert found["from"] == "copy" and found["commit"] == fake_hub.repositories["me/sums"].commit
    assert (found["folder"], found["rows"]) == (f"{data}/me/sums/default", {"test": 6, "train": 2})


def test_what_cannot_be_fetched_does_not_stop_the_rest(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    fake_hub.add("me/good", test=ROWS, train=ROWS)
    fake_hub.add("me/files").files["data/x.jsonl"] = b'{"q": "1", "label": 0}\n'
    fake_hub.add("me/gated", test=ROWS).gated = 403
    fake_hub.add("me/old").moved_to = "me/good"
    write_hub_task(write_task, "gone", "me/gone")
    write_hub_task(write_task, "gated", "me/gated")
    write_hub_task(write_task, "good", "me/good")
    write_hub_task(write_task, "old", "me/old")
    files = "{data_files: {test: hf://datasets/me/files/data/x.jsonl}}"
    write_task("files", dataset_kwargs=files, fewshot_split="test")
    write_task("local")
    own = ["--include_path", str(tmp_path / "tasks"), "--to", str(tmp_path / "data")]
    wanted = ["gone", "gated", "good", "old", "files", "local"]
    code, out, err = done(fake_hub.environment(home), "data", "get", "--tasks", *wanted, *own)
    assert code == 3, out + err
    assert 'dataset "me/gone" is not on the Hub' in out and "  needed by: gone" in out
    assert 'dataset "me/gated" is gated' in out and "2 datasets could not be fetched" in out
    assert "me/old was renamed to me/good" in err and "nothing to fetch for local" in out
    assert {"me/good/default/test.parquet", "me/old/default/test.parquet", "me/files/data/x.jsonl"} <= set(
        names(tmp_path / "data")
    )


def test_missing_data_is_said_for_all_tasks_at_once(
    write_task: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    for task in ("one", "two"):
        write_hub_task(write_task, task, f"me/{task}")
    data = tmp_path / "data"
    data.mkdir()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home)}
    own = ["--include_path", str(tmp_path / "tasks"), "--data", str(data), "--store", str(tmp_path / "s.db")]
    code, _, err = done(environment, "run", "--model", "no/such-model", "--tasks", "one", "two", *own)
    assert code == 2
    assert f"the data of 2 tasks is not in {data} or the Hub's cache, and HF_HUB_OFFLINE forbids the network" in err
    assert "one: me/one, two: me/two" in err
    assert f"run: assay data get --tasks one two --to {data}; then copy {data} here and add --data {data}" in err
    code, _, err = done(environment, "show", "one", *own)
    assert code == 2 and "the data of 1 task is not in" in err


def test_incomplete_copies_of_several_tasks_are_one_message(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    own, data = ["--include_path", str(tmp_path / "tasks")], str(tmp_path / "data")
    for task in ("few", "half", "whole"):
        fake_hub.add(f"me/{task}", test=ROWS, train=ROWS)
        write_hub_task(write_task, task, f"me/{task}")
    environment = fake_hub.environment(home)
    assert done(environment, "data", "get", "--tasks", "few", "half", "whole", "--to", data, *own)[0] == 0
    (tmp_path / "data/me/half/default/test.parquet").unlink()
    write_hub_task(write_task, "few", "me/few", fewshot_split="dev", num_fewshot="1")
    words = ["--model", "dummy", "--tasks", "few", "half", "whole", *own, "--data", data]
    code, _, err = done(environment, "run", *words, "--store", str(tmp_path / "s.db"))
    assert code == 2 and f"--data: the copies of 2 tasks in {data} are not complete: " in err
    assert 'few: no split "dev"; half: is recorded in assay-data.json and not there' in err
    assert f"Run: assay data get --tasks few half --to {data}" in err
    code, out, _ = done(environment, "ls", "tasks", *own, "--data", data, "--format", "names")
    assert code == 0 and "whole" in out.split() and not {"few", "half"} & set(out.split())


def test_no_network_is_one_message_in_time(write_task: Callable[..., None], tmp_path: Path, home: Path) -> None:
    for task in ("one", "two"):
        write_hub_task(write_task, task, f"me/{task}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}"
    given = {key: text for key, text in os.environ.items() if "OFFLINE" not in key}
    environment = {**given, "HF_ENDPOINT": closed, "HF_HOME": str(home)}
    own = ["--tasks", "one", "two", "--include_path", str(tmp_path / "tasks")]
    code, _, err = done(environment, "run", "--model", "dummy", *own, "--store", str(tmp_path / "s.db"))
    assert code == 2 and "Retrying" not in err  # the client alone would retry for 23 s
    assert "there is no network (127.0.0.1: Connection refused): one: me/one, two: me/two" in err
    assert "run: assay data get --tasks one two --to DIR; then copy DIR here and add --data DIR" in err
    code, out, _ = done(environment, "data", "get", *own, "--to", str(tmp_path / "data"))
    assert code == 3 and out.count("problem: ") == 1 and "  needed by: one, two" in out
    assert "cannot be fetched: there is no network" in out and "run the same command again" in out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_download_leaves_nothing_that_counts(
    number: signal.Signals, fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    name = f"me/stopped{number}"
    repository = fake_hub.add(name, test=ROWS, train=ROWS[:5])
    repository.slow = frozenset({"default/train.jsonl"})
    fake_hub.halfway.clear()
    fake_hub.released.clear()
    write_hub_task(write_task, "sums", name)
    own = ["--tasks", "sums", "--include_path", str(tmp_path / "tasks"), "--to", str(tmp_path / "data")]
    process = command(fake_hub.environment(home), "data", "get", *own)
    is_halfway = fake_hub.halfway.wait(60)
    os.killpg(process.pid, number)
    assert is_halfway
    _, err = process.communicate(timeout=60)
    fake_hub.released.set()
    assert [path for path in names(tmp_path / "data") if not path.startswith(".partial/")] == []
    if number == signal.SIGINT:
        assert process.returncode == 130 and "datasets so far are saved: run the same command again" in err
    repository.slow = frozenset()
    code, out, err = done(fake_hub.environment(home), "data", "get", *own)
    assert code == 0, out + err
    assert names(tmp_path / "data") == [f"{name}/default/{file}" for file in FILES]


FILES = ("assay-data.json", "test.parquet", "train.parquet")


def test_a_download_that_breaks_off_is_an_error_and_repeated(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    repository = fake_hub.add("me/files2")
    repository.files["x.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    write_task("files", dataset_kwargs="{data_files: {test: hf://datasets/me/files2/x.jsonl}}", fewshot_split="test")
    own = ["--tasks", "files", "--include_path", str(tmp_path / "tasks"), "--to", str(tmp_path / "data")]
    repository.cut = frozenset({"x.jsonl"})
    code, out, _ = done(fake_hub.environment(home), "data", "get", *own)
    assert (code, names(tmp_path / "data")) == (3, []), out
    repository.cut = frozenset()
    assert done(fake_hub.environment(home), "data", "get", *own)[0] == 0
    path = tmp_path / "data/me/files2/x.jsonl"
    path.write_bytes(path.read_bytes()[:20])
    assert main(["data", "check", str(tmp_path / "data")]) == 2
    assert done(fake_hub.environment(home), "data", "get", *own)[0] == 0
    assert path.read_bytes() == repository.files["x.jsonl"]
    assert main(["data", "check", str(tmp_path / "data")]) == 0


def test_a_full_disk_stops_with_what_is_complete(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    fake_hub.add("me/small", test=ROWS, train=ROWS)
    noise = [{"q": os.urandom(3000).hex(), "label": 0} for _ in range(60)]
    fake_hub.add("me/large", test=noise, train=ROWS)
    for task in ("small", "large"):
        write_hub_task(write_task, task, f"me/{task}")
    own = ["--include_path", str(tmp_path / "tasks"), "--to", str(tmp_path / "data")]
    code, _, err = done(fake_hub.environment(home), "data", "get", "--tasks", "small", "large", *own, limit=200)
    assert code == 2 and "no space left while fetching me/large" in err
    assert "run the same command again: complete datasets are kept" in err
    assert names(tmp_path / "data") == [f"me/small/default/{file}" for file in FILES]


def test_a_folder_is_listed_and_checked(
    fake_hub: Any,
    write_task: Callable[..., None],
    tmp_path: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_hub.add("me/listed", "hard", test=ROWS, train=ROWS[:2])
    write_hub_task(write_task, "sums", "me/listed", dataset_name="hard")
    data = tmp_path / "data"
    own = ["--tasks", "sums", "--include_path", str(tmp_path / "tasks"), "--to", str(data)]
    assert done(fake_hub.environment(home), "data", "get", *own)[0] == 0
    assert main(["data", "ls", str(data)]) == 0
    assert "me/listed (hard)" in (text := capsys.readouterr().out) and "test 6, train 2 of 10" in text
    (data / "me/listed/hard/train.parquet").unlink()
    assert main(["data", "check", str(data)]) == 2
    text = capsys.readouterr().out
    assert "damaged" in text and "train.parquet: is recorded in assay-data.json and not there" in text
    assert main(["data", "ls", str(data), "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["datasets"]
    assert [(row["dataset"], row["config"], row["missing"]) for row in listed] == [
        ("me/listed", "hard", ["train.parquet"])
    ]


def test_folders_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_DATA", raising=False)
    for words, found in {
        "get --tasks demo": "--to: is missing",
        "get --to x": "--tasks: is missing",
        "ls": "no folder is named",
        "check nowhere": 'there is no folder "nowhere"',
    }.items():
        assert main(["data", *words.split()]) == 2
        assert found in capsys.readouterr().err
    assert main(["run", "--model", "dummy", "--tasks", "demo", "--data", "nowhere"]) == 2
    assert '--data: there is no folder "nowhere"' in capsys.readouterr().err
    monkeypatch.setenv("ASSAY_DATA", "nowhere")
    assert main(["run", "--model", "dummy", "--tasks", "demo"]) == 2
    assert 'ASSAY_DATA: there is no folder "nowhere"' in capsys.readouterr().err


def test_files_without_a_record_are_not_overwritten(
    fake_hub: Any, write_task: Callable[..., None], tmp_path: Path, home: Path
) -> None:
    path = tmp_path / "data/me/own/default/test.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"q": "mine", "label": 0}\n')
    write_hub_task(write_task, "sums", "me/own")
    own = ["--tasks", "sums", "--include_path", str(tmp_path / "tasks"), "--to", str(tmp_path / "data")]
    code, out, _ = done(fake_hub.environment(home), "data", "get", *own)
    assert code == 3 and "holds files without a record, which assay data get did not make" in out
    assert names(tmp_path / "data") == ["me/own/default/test.jsonl"]


def test_a_folder_without_records_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "me/sums/default").mkdir(parents=True)
    assert main(["data", "ls", str(tmp_path)]) == 0
    assert "1 dataset without a record of assay data get, read as found: me/sums" in " ".join(
        capsys.readouterr().out.split()
    )


def test_check_reads_the_data_of_tasks(
    write_task: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data/me/sums/default"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for task, changes in {"good": {}, "column": {"doc_to_text": "'{{qq}}'"}, "split": {"test_split": "tset"}}.items():
        write_hub_task(write_task, task, "me/sums", **changes)
    words = ["check", str(tmp_path / "tasks"), "--data", str(tmp_path / "data")]
    assert main(words[:2]) == 0 and main(words) == 2
    found = capsys.readouterr()
    assert "1 of 3 tasks can be built with their code and data" in found.out
    assert "error: task column:" in found.err and "'qq' is undefined (did you mean \"q\"?)" in found.err
    assert "error: task split:" in found.err and 'no split "tset" (did you mean "test"?)' in found.err


def test_a_damaged_record_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"sums": "{", "words": '{"dataset": "me/words", "config": "default", "files": {}}'}.items():
        (tmp_path / "me" / name / "default").mkdir(parents=True)
        (tmp_path / "me" / name / "default" / "assay-data.json").write_text(text)
    for what in ("ls", "check"):
        assert main(["data", what, str(tmp_path)]) == 2
        out = capsys.readouterr().out
        assert "me/words (default)" in out and "me/sums/default" in out and "damaged" in out
        assert "assay-data.json: cannot be read" in out


def test_a_folder_without_datasets_is_not_a_sound_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(tmp_path)]) == 2
    assert "holds no datasets; expected OWNER/NAME/CONFIGURATION" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["data", "check", str(tmp_path / "file")]) == 2
    assert "is a file; expected a folder of datasets" in capsys.readouterr().err


def test_a_download_says_what_is_partial(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = {"test": CopiedFile(10, "", "test", 6, 6), "train": CopiedFile(10, "", "train", 2, 1000)}
    fetched = Fetched("me/sums", "default", tmp_path, files)
    show_data_report(DataReport(tmp_path, (DatasetOutcome("me/sums", ("sums",), fetched),)), "text")
    assert "test 6, train 2 of 1,000" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("named", ["data/me", "data/me/one/default", "."])
def test_a_neighbour_of_the_folder_of_datasets_says_which_was_meant(
    named: str,
    write_task: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "data/me/one/default").mkdir(parents=True)
    write_hub_task(write_task, "one", "me/one")
    own = ["--include_path", str(tmp_path / "tasks"), "--store", str(tmp_path / "s.db")]
    assert main(["run", "--model", "dummy", "--tasks", "one", *own, "--data", str(tmp_path / named)]) == 2
    assert f"expected the folder that holds OWNER/NAME. Say: --data {tmp_path / 'data'}" in capsys.readouterr().err
