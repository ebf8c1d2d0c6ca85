"""What every test has: time for property tests, no secrets of an earlier test, and no width of anyone's terminal.

Where several processes run tests side by side, torch has one thread in each: more would wait for each other.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import settings

from assay.core.secrets import forget

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("COLUMNS", None)  # set by xdist; the tests that want a width say so

settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> None:
    """What is in memory when a module's tests begin is never garbage for them.

    With torch and transformers loaded a full collection takes up to a second; every training starts one.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """Tests share a process, and what is known as a secret is known to all of it."""
    forget()
    yield
    forget()


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., None]:
    """Writes the task `odd`, on odd.jsonl with examples of shots.jsonl; keys by name change it, also its name."""

    def write(task: str = "odd", **changes: str) -> None:
        keys = {
            "task": task,
            "dataset_path": "json",
            "dataset_kwargs": "{data_files: {test: odd.jsonl, train: shots.jsonl}}",
            "test_split": "test",
            "fewshot_split": "train",
            "output_type": "multiple_choice",
            "doc_to_text": "'{{q}}'",
            "doc_to_choice": "['yes', 'no']",
            "doc_to_target": "label",
            "metric_list": "[{metric: acc}, {metric: acc_norm}]",
            **changes,
        }
        path = tmp_path / "tasks" / f"{task}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))

    return write


# A hub of datasets on loopback: the few addresses that `datasets` and `huggingface_hub` ask for, with the faults of a
# real one. `datasets` reads HF_ENDPOINT when it is imported, so what asks this hub is a process of its own.


@dataclass
class Repository:
    """A dataset of the hub.

    Attributes:
        files: path → content.
        gated: status of every answer about it: 401 or 403; 0 if anyone may read it.
        moved_to: its new id, to which every address of the old one leads.
        cut: files of which only the first half is sent.
        slow: files whose second half waits for the hub's `released`.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    gated: int = 0
    moved_to: str = ""
    cut: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


class FakeHub(ThreadingHTTPServer):
    """Serves repositories; `requests` are the addresses asked for, `url` is its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.halfway, self.released = threading.Event(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str, config: str = "default", **splits: list[dict[str, Any]]) -> Repository:
        """Adds a dataset of JSON lines, one configuration with these splits."""
        lines = {split: "".join(json.dumps(row) + "\n" for row in rows) for split, rows in splits.items()}
        files = {f"{config}/{split}.jsonl": text.encode() for split, text in lines.items()}
        listed = "".join(f"  - split: {split}\n    path: {config}/{split}.jsonl\n" for split in splits)
        files["README.md"] = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{listed}---\n".encode()
        self.repositories[name] = Repository(files)
        return self.repositories[name]

    def environment(self, home: Path) -> dict[str, str]:
        """The environment of a process that asks this hub."""
        names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "ASSAY_DATA", "HF_TOKEN")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        return {**kept, "HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}


class _HubHandler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(path)
        parts = path.strip("/").split("/")
        parts = parts[1:] if parts[0] == "api" else parts
        name, rest = "/".join(parts[1:3]), parts[3:]
        repository = self.server.repositories.get(name)
        if repository is None:
            self._send(401, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "not found"})
        elif repository.moved_to:
            self._send(307, headers={"Location": self.path.replace(name, repository.moved_to)})
        elif repository.gated:
            self._send(repository.gated, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        else:
            self._send_part(name, repository, rest, body)

    def _send_part(self, name: str, repository: Repository, rest: list[str], body: bytes) -> None:
        known = ("main", repository.commit)
        match rest:
            case ["revision" | "tree" | "paths-info" | "resolve", revision, *_] if revision not in known:
                self._send(404, headers={"X-Error-Code": "RevisionNotFound", "X-Error-Message": "no such revision"})
            case [] | ["revision", _]:
                siblings = [{"rfilename": path} for path in repository.files]
                self._send(200, {"_id": "1", "id": name, "sha": repository.commit, "siblings": siblings, "tags": []})
            case ["tree", _, *inner]:
                self._send(200, _listed(repository, "/".join(inner)))
            case ["paths-info", _]:
                own = json.loads(body)["paths"] if body[:1] == b"{" else parse_qs(body.decode())["paths"]
                self._send(200, [row for row in _listed(repository, "", True) if row["path"] in own])
            case ["resolve", _, *inner] if "/".join(inner) in repository.files:
                self._send_file(repository, "/".join(inner))
            case _:
                self._send(404, headers={"X-Error-Code": "EntryNotFound", "X-Error-Message": "no such file"})

    def _send_file(self, repository: Repository, path: str) -> None:
        content = repository.files[path]
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": repository.commit}
        half = len(content) // 2
        self._send(200, content, headers, half if path in repository.cut | repository.slow else None)
        if path in repository.slow and self.command == "GET":
            self.server.halfway.set()
            self.server.released.wait(60)

    def _send(
        self, status: int, value: Any = None, headers: dict[str, str] | None = None, most: int | None = None
    ) -> None:
        body = value if isinstance(value, bytes) else json.dumps({} if value is None else value).encode()
        self.send_response(status)
        for key, text in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:most])
            self.close_connection = most is not None

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _listed(repository: Repository, folder: str, everything: bool = False) -> list[dict[str, Any]]:
    """The files and folders of a listing."""
    rows = {
        path: {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
        for path, content in repository.files.items()
    }
    folders = {str(parent) for path in rows for parent in Path(path).parents if str(parent) != "."}
    rows.update({path: {"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in folders})
    return [row for path, row in rows.items() if everything or path.startswith(f"{folder}/" if folder else "")]


@pytest.fixture(scope="module")
def fake_hub() -> Iterator[FakeHub]:
    """A hub on loopback without datasets; tests add theirs."""
    pytest.importorskip("datasets")
    server = FakeHub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
