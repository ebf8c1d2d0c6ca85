"""Sources: which files a task refers to, where they are searched, and the errors for missing ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.data.sources import (
    FileSource,
    HubSource,
    MemorySource,
    SourceSpec,
    hub_client_offline,
    open_source,
    split_rows,
)

SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))


def write_rows(path: Path, *values: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"a": value}) + "\n" for value in values), encoding="utf-8")


def values(spec: SourceSpec, split: str = "test") -> list[Any]:
    source = open_source(spec)
    assert isinstance(source, FileSource)
    return [row["a"] for row in split_rows(source, split, "my.yaml")]


def json_files(folder: Path, data_files: Any, **options: Any) -> SourceSpec:
    return SourceSpec("json", None, {"data_files": data_files, **options}, folder, "my.yaml:2  dataset_path")


def test_data_files_by_split(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.jsonl", 1, 2)
    write_rows(tmp_path / "y.jsonl", 3)
    spec = json_files(tmp_path, {"test": ["x.jsonl", "y.jsonl"], "train": "y.jsonl"})
    assert open_source(spec).splits() == ["test", "train"]
    assert values(spec) == [1, 2, 3]
    assert values(spec, "train") == [3]


def test_data_files_without_splits_are_train(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.jsonl", 1)
    assert values(json_files(tmp_path, "x.jsonl"), "train") == [1]
    assert values(json_files(tmp_path, ["x.jsonl"]), "train") == [1]


def test_patterns_and_data_dir(tmp_path: Path) -> None:
    write_rows(tmp_path / "data/b.jsonl", 2)
    write_rows(tmp_path / "data/a.jsonl", 1)
    assert values(json_files(tmp_path, {"test": "data/*.jsonl"})) == [1, 2]
    assert values(json_files(tmp_path, {"test": "*.jsonl"}, data_dir="data")) == [1, 2]
    assert values(json_files(tmp_path, {"test": str(tmp_path / "data/b.jsonl")})) == [2]


def test_the_task_files_folder_comes_before_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "task/x.jsonl", 1)
    write_rows(tmp_path / "work/x.jsonl", 2)
    write_rows(tmp_path / "work/y.jsonl", 3)
    monkeypatch.chdir(tmp_path / "work")
    assert values(json_files(tmp_path / "task", {"test": "x.jsonl"})) == [1]
    assert values(json_files(tmp_path / "task", {"test": "y.jsonl"})) == [3]


def test_a_missing_file_is_reported_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        open_source(json_files(tmp_path, {"test": "nowhere.jsonl"}))
    text = str(caught.value)
    assert text.startswith('my.yaml:2  dataset_path: dataset_kwargs.data_files.test: no file "nowhere.jsonl"; expected')
    assert str(tmp_path) in text and "Give an absolute path" in text


def test_a_folder_has_splits_and_configurations(tmp_path: Path) -> None:
    write_rows(tmp_path / "set/test.jsonl", 1)
    write_rows(tmp_path / "set/dev.jsonl", 2)
    write_rows(tmp_path / "set/hard/test.jsonl", 3)
    assert values(SourceSpec("set", None, {}, tmp_path)) == [1]
    assert values(SourceSpec("set", None, {}, tmp_path), "validation") == [2]
    assert values(SourceSpec("set", "hard", {}, tmp_path)) == [3]
    assert values(SourceSpec("set", None, {"data_dir": "hard"}, tmp_path)) == [3]
    assert values(SourceSpec("json", None, {"data_dir": "set/hard"}, tmp_path)) == [3]


def test_a_folder_without_data_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match="set holds no data files; expected files such as test.jsonl"):
        open_source(SourceSpec("set", None, {}, tmp_path))


def test_a_folder_of_another_layout_goes_to_datasets_by_its_full_path(tmp_path: Path) -> None:
    write_rows(tmp_path / "set/data/part_test.jsonl", 1)
    source = open_source(SourceSpec("set", None, {}, tmp_path))
    assert isinstance(source, HubSource)
    assert source._spec.path == str((tmp_path / "set").resolve())


def test_settings_that_only_datasets_knows_keep_the_files_found(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.csv", 1)
    for options in ({"encoding": "latin-1"}, {"sep": "::"}, {"header": 2}):
        spec = SourceSpec("csv", None, {"data_files": {"test": "x.csv"}, **options}, tmp_path)
        source = open_source(spec)
        assert isinstance(source, HubSource)
        assert source._spec.options["data_files"] == {"test": [str((tmp_path / "x.csv").resolve())]}


def test_csv_settings_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1;x\n2;y\n", encoding="utf-8")
    options = {"data_files": {"test": "x.csv"}, "sep": ";", "column_names": ["a", "b"]}
    assert values(SourceSpec("csv", None, options, tmp_path)) == [1, 2]
    assert values(SourceSpec("csv", None, {**options, "header": 0}, tmp_path)) == [2]
    renamed = {"data_files": {"test": "x.csv"}, "delimiter": ";", "names": ["a", "b"]}
    assert values(SourceSpec("csv", None, renamed, tmp_path)) == [1, 2]


def test_remote_files_are_left_to_datasets(tmp_path: Path) -> None:
    spec = json_files(tmp_path, {"test": "https://example.org/x.jsonl"})
    assert isinstance(open_source(spec), HubSource)


def test_columns_are_filled_over_all_files_of_a_split(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"a": 1}]', encoding="utf-8")
    (tmp_path / "y.json").write_text('[{"b": 2}]', encoding="utf-8")
    source = open_source(json_files(tmp_path, {"test": ["x.json", "y.json"]}))
    assert source.rows("test") == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_a_missing_split_is_reported_with_the_splits_there_are() -> None:
    source = MemorySource({"train": [{"a": 1}], "validation": [{"a": 1}]})
    with pytest.raises(DataError) as caught:
        split_rows(source, "validatoin", "my.yaml:4  validation_split")
    expected = (
        'validation_split: no split "validatoin" (did you mean "validation"?); expected one of: train, validation'
    )
    assert expected in str(caught.value)


def test_an_empty_split_is_an_error() -> None:
    with pytest.raises(DataError, match='the split "test" is empty; expected at least one document'):
        split_rows(MemorySource({"test": []}), "test", "my.yaml")


def test_rows_of_memory_are_copies() -> None:
    source = MemorySource({"test": [{"a": 1}]})
    source.rows("test")[0]["a"] = 2
    assert source.rows("test") == [{"a": 1}]


# The Hub, in a process of its own: `datasets` reads HF_ENDPOINT and HF_HOME when it is imported.

_ASK = """
import json, sys
from assay.core.errors import UserError
from assay.data.sources import SourceSpec, open_source, split_rows
path, name, options = json.loads(sys.argv[1])
try:
    rows = split_rows(open_source(SourceSpec(path, name, options, None, "my.yaml:2")), "test", "my.yaml:3")
    print(json.dumps({"count": len(rows), "first": rows[0]}))
except UserError as error:
    print(json.dumps({"error": str(error), "kind": type(error).__name__, "faults": len(error.faults)}))
"""


def ask_hub(address: str, home: Path, path: str, name: str | None, **more: Any) -> dict[str, Any]:
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    environment.pop("HF_DATASETS_OFFLINE", None)
    environment.update(more.pop("environment", {}))
    command = [sys.executable, "-c", _ASK, json.dumps([path, name, more])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The shared tools' hub on loopback, with one small dataset."""
    pytest.importorskip("datasets")
    script = SHARED / "tools" / "hub.py"
    if not script.is_file():
        pytest.skip(f"no {script}")
    folder = tmp_path_factory.mktemp("hub") / "owner" / "sums"
    write_rows(folder / "easy" / "test.jsonl", 1, 2, 3)
    configs = "configs:\n- config_name: easy\n  data_files:\n  - split: test\n    path: easy/test.jsonl\n"
    (folder / "README.md").write_text(f"---\n{configs}---\n", encoding="utf-8")
    command = [sys.executable, str(script), str(folder.parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def test_a_dataset_of_the_hub(hub: str, tmp_path: Path) -> None:
    assert ask_hub(hub, tmp_path, "owner/sums", "easy") == {"count": 3, "first": {"a": 1}}


def test_an_unknown_configuration_is_one_clear_error(hub: str, tmp_path: Path) -> None:
    found = ask_hub(hub, tmp_path, "owner/sums", "hard")
    assert (found["kind"], found["faults"]) == ("DataError", 1)
    assert 'my.yaml:2: dataset "owner/sums" has no configuration "hard"; expected one of: easy' in found["error"]


def test_one_split_alone_is_refused(hub: str, tmp_path: Path) -> None:
    found = ask_hub(hub, tmp_path, "owner/sums", "easy", split="test")
    assert "Remove dataset_kwargs.split" in found["error"]


def check_unreachable(found: dict[str, Any], message: str) -> None:
    assert (found["kind"], found["faults"]) == ("UnreachableDataset", 1)
    assert f'dataset "owner/sums" (easy) {message}' in found["error"]
    assert "run: assay data get --tasks TASK --to DIR" in found["error"]


def test_a_forbidden_hub_is_one_clear_error(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    check_unreachable(
        ask_hub("http://127.0.0.1:9", tmp_path, "owner/sums", "easy", environment={"HF_HUB_OFFLINE": "1"}),
        "is not on this machine, and HF_HUB_OFFLINE forbids the network",
    )


@pytest.mark.slow  # huggingface_hub tries six times, with 23 seconds of waiting between
def test_an_unreachable_hub_is_one_clear_error(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    check_unreachable(ask_hub("http://127.0.0.1:9", tmp_path, "owner/sums", "easy"), "could not be fetched: no network")


def test_data_behind_http_names_the_package_it_lacks(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "aiohttp.py").write_text("raise ImportError('not installed here')\n", encoding="utf-8")
    found = ask_hub(
        "http://127.0.0.1:9",
        tmp_path / "home",
        "json",
        None,
        data_files={"test": "http://127.0.0.1:9/rows.jsonl"},
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert (found["kind"], found["faults"]) == ("MissingExtra", 1)
    assert 'my.yaml:2: dataset "json" needs a package that is not installed' in found["error"]
    assert "pip install 'assay-eval[hf]'" in found["error"]


def test_the_client_is_offline_for_as_long_as_asked() -> None:
    datasets = pytest.importorskip("datasets")
    from huggingface_hub import constants

    earlier = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    with hub_client_offline():
        assert constants.is_offline_mode() and datasets.config.HF_HUB_OFFLINE
    assert earlier == (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE)
