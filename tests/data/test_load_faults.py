"""Messages for datasets that cannot be loaded, from the errors of the real client against a hub with these faults."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.data.download import space_fault
from assay.data.load_faults import RENAMED, SCRIPT_REPLACEMENTS, load_error

# Opens each dataset and prints the message of its error; one process, as importing `datasets` takes a second.
_ASK = """
import json, sys
from pathlib import Path
from assay.core.errors import UserError
from assay.data.copy_source import open_with_copies
from assay.data.sources import SourceSpec, split_rows
for path, name, split, options, root in json.loads(sys.argv[1]):
    try:
        spec = SourceSpec(path, name, options, None, "my.yaml:2", "mine")
        rows = split_rows(open_with_copies(spec, Path(root)), split, "my.yaml:3")
        print("#" + json.dumps([f"{len(rows)} rows"]))
    except UserError as error:
        print("#" + json.dumps([str(error), type(error).__name__, len(error.faults)]))
"""
Asked = tuple[str, "str | None", str, Mapping[str, Any], str]


def ask(asked: list[Asked], environment: Mapping[str, str]) -> list[list[Any]]:
    command = [sys.executable, "-c", _ASK, json.dumps(asked)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("#")]


CASES: dict[str, tuple[str, str | None, str, dict[str, Any]]] = {
    "good": ("good/rows", None, "test", {}),
    "moved": ("old/rows", None, "test", {}),
    "gated": ("gated/rows", None, "test", {}),
    "refused": ("refused/rows", None, "test", {}),
    "missing": ("nobody/nothing", None, "test", {}),
    "renamed": ("lukaemon/bbh", None, "test", {}),
    "bare": ("glue", "cola", "test", {}),
    "script": ("allenai/math_qa", None, "test", {}),
    "other script": ("some/script", None, "test", {}),
    "config": ("good/configs", "gerrman", "test", {}),
    "split": ("good/rows", None, "tset", {}),
    "empty": ("good/empty", None, "test", {}),
    "revision": ("good/rows", None, "test", {"revision": "v9"}),
    "nothing": ("good/nothing", None, "test", {}),
}


@pytest.fixture(scope="module")
def messages(fake_hub: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    fake_hub.add("good/rows", test=[{"a": 1}], train=[{"a": 2}])
    fake_hub.add("good/configs", "german", test=[{"a": 1}])
    fake_hub.add("good/empty", test=[], train=[{"a": 2}])
    fake_hub.add("old/rows").moved_to = "good/rows"
    fake_hub.add("gated/rows", test=[{"a": 1}]).gated = 401
    fake_hub.add("refused/rows", test=[{"a": 1}]).gated = 403
    for name in ("allenai/math_qa", "some/script"):
        fake_hub.add(name).files = {"README.md": b"# x\n", f"{name.rpartition('/')[2]}.py": b"pass\n"}
    fake_hub.add("good/nothing").files = {"README.md": b"# x\n", "notes.docx": b"x"}
    folder = tmp_path_factory.mktemp("home")
    asked = [(*case, str(folder)) for case in CASES.values()]
    return dict(zip(CASES, ask(asked, fake_hub.environment(folder)), strict=True))


EXPECTED = {
    "good": ["1 rows"],
    "moved": ["1 rows"],
    "gated": ['dataset "gated/rows" is gated', "no token is set", "Ask for access at", "set HF_TOKEN"],
    "refused": ['dataset "refused/rows" is gated', "expected a token of an account that has access"],
    "missing": ['dataset "nobody/nothing" is not on the Hub, or is private', "Check the id", "HF_TOKEN"],
    "renamed": ['dataset "lukaemon/bbh" was renamed', "expected dataset_path: SaylorTwift/bbh"],
    "bare": ['dataset "glue" was renamed; expected dataset_path: nyu-mll/glue'],
    "script": ['"allenai/math_qa" has only a loading script', "expected dataset_path: regisss/math_qa"],
    "other script": ["has only a loading script", "refs/convert/parquet"],
    "config": ['has no configuration "gerrman" (did you mean "german"?)', "expected one of: german"],
    "split": ['no split "tset" (did you mean "test"?)', "expected one of: test, train"],
    "empty": ["a data file without rows", "Look at "],
    "revision": ["has no such revision", "Correct dataset_kwargs.revision"],
    "nothing": ["no data files that can be read", "refs/convert/parquet"],
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_of_the_hub_is_one_clear_message(case: str, messages: dict[str, list[Any]]) -> None:
    text, *rest = messages[case]
    assert [part for part in EXPECTED[case] if part not in text] == [], text
    assert rest in ([], ["DataError", 1])


def test_a_dataset_that_is_nowhere_says_how_to_fetch_it(fake_hub: Any, tmp_path: Path) -> None:
    environment = {**fake_hub.environment(tmp_path), "HF_HUB_OFFLINE": "1"}
    text, kind, _ = ask([("nobody/else", "easy", "test", {}, str(tmp_path))], environment)[0]
    assert kind == "UnreachableDataset"
    expected = 'my.yaml:2: dataset "nobody/else" (easy) is not on this machine, and HF_HUB_OFFLINE forbids the network'
    assert text.startswith(f"{expected}; expected a copy (--data DIR, ASSAY_DATA) or the Hub's cache. Unset HF_HUB_OFF")
    assert "run: assay data get --tasks mine --to DIR; copy DIR here and add --data DIR" in text


def test_without_network_the_cache_is_read_and_the_rest_fails_at_once(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.add("kept/rows", test=[{"a": 1}])
    kept = ("kept/rows", None, "test", {}, str(tmp_path))
    assert ask([kept], fake_hub.environment(tmp_path)) == [["1 rows"]]
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}"
    environment = {**fake_hub.environment(tmp_path), "HF_ENDPOINT": closed}
    found, (text, kind, _) = ask([kept, ("nobody/else", None, "test", {}, str(tmp_path))], environment)
    assert found == ["1 rows"] and kind == "UnreachableDataset"
    assert "is not on this machine, and there is no network (127.0.0.1: Connection refused)" in text
    assert "Check the network, proxy and HF_ENDPOINT, or on a machine with network, run: assay data get" in text


@pytest.mark.parametrize("kind", [ConnectionError, ConnectionRefusedError])
def test_no_network_is_told_from_a_missing_dataset(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    text = str(load_error("me/sums", None, "my.yaml:2", "mine", kind("Name or service not known")))
    assert "could not be fetched: no network" in text and "Check the network, proxy and HF_ENDPOINT" in text
    assert "assay data get --tasks mine" in text


def test_a_full_disk_is_told_apart() -> None:
    error = OSError(28, "No space left on device")
    text = str(load_error("me/sums", None, "my.yaml:2", "mine", error))
    assert text == 'my.yaml:2: dataset "me/sums" does not fit: no space left on the disk. Make room, or move HF_HOME'


def test_a_cache_that_cannot_be_written_is_told_apart() -> None:
    text = str(load_error("me/sums", None, "my.yaml:2", "mine", OSError(30, "Read-only file system", "/cache/hub")))
    assert 'dataset "me/sums" could not be loaded: /cache/hub: Read-only file system' in text
    assert "set HF_HOME to a folder of your own" in text and "Check the id" not in text


class HfHubHTTPError(OSError):
    """As the client raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Client error '{status}'")
        self.response = SimpleNamespace(status_code=status)


class RemoteProtocolError(Exception):
    """As httpx raises it."""


@pytest.mark.parametrize(
    ("error", "found", "advice"),
    [
        (HfHubHTTPError(401), "HTTP status 401: no access without a token", "Set HF_TOKEN to a valid token"),
        (HfHubHTTPError(429), "HTTP status 429: too many requests", "Wait a few minutes"),
        (HfHubHTTPError(503), "HTTP status 503", "run the same command again later"),
        (RemoteProtocolError("peer closed"), "the connection broke off (peer closed)", "Run the same command again"),
    ],
)
def test_a_hub_that_answers_without_data_is_told_apart(
    error: Exception, found: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    text = str(load_error("me/sums", None, "my.yaml:2", "mine", error))
    assert found in text and advice in text
    assert "Check the id" not in text


def test_a_refused_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    text = str(load_error("me/sums", None, "my.yaml:2", "mine", HfHubHTTPError(401)))
    assert "HTTP status 401: it does not accept the token" in text and "hf_wrong" not in text


def test_the_disk_that_is_full_is_the_one_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {tmp_path: 9_000_000, tmp_path / "cache": 2_000_000}
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free[path]))
    (tmp_path / "cache").mkdir()
    text = str(space_fault(tmp_path, "me/sums"))
    assert text.startswith(f"{tmp_path / 'cache'}: no space left while fetching me/sums into the Hub's cache (HF_HOME)")
    free[tmp_path] = 1_000_000
    assert str(space_fault(tmp_path, "me/sums")).startswith(f"{tmp_path}: no space left while fetching me/sums (1 MB")


def test_replacements_name_an_owner_or_a_file() -> None:
    assert [name for name, other in RENAMED.items() if "/" not in other] == []
    assert [name for name, other in SCRIPT_REPLACEMENTS.items() if other and "/" not in other] == []
