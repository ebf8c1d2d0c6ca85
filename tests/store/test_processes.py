"""One store and several processes; one store and a full disk."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assay.store.store import Store

WRITE = """
import hashlib, sys
from assay.core.identity import Fingerprint
from assay.core.responses import Logprob, Response
from assay.store.response_table import ResponseWriter
from assay.store.store import Store

path, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = Fingerprint(f"model {number % 2}")
with Store(path) as store, ResponseWriter(store.responses, model) as writer:
    for place in range(count):
        # Half of the keys are shared with another process.
        name = f"{number if place % 2 else number % 2} {place}"
        writer.put([Response(hashlib.sha256(name.encode()).digest(), Logprob(-float(place), number, False))])
        if place % 500 == 0:
            store.responses.known([b"x"])
    run_id = store.runs.begin(model, {}, {})
    store.runs.end(run_id, "finished", {})
"""

FILL = """
import resource, signal, sys
from assay.core.errors import StoreError
from assay.core.identity import Fingerprint
from assay.core.responses import Response, Text
from assay.store.store import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = 0
try:
    with Store(sys.argv[1]) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        for number in range(1000):
            rows = [Response(bytes([n, number % 256, number // 256]) + bytes(29), Text("x" * 100)) for n in range(50)]
            store.responses.put(rows, Fingerprint("m"))
            kept += 50
except StoreError as error:
    print(kept, error)
    sys.exit(error.exit_code)
"""


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


def test_four_processes_write_at_once_without_error_or_loss(tmp_path: Path) -> None:
    path, count = tmp_path / "s.db", 10_000
    command = [sys.executable, "-W", "error", "-c", WRITE, str(path)]
    running = [
        subprocess.Popen([*command, str(number), str(count)], stderr=subprocess.PIPE, text=True) for number in range(4)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in running]
    assert ended == [("", 0)] * 4
    with Store(path) as store:
        assert store.responses.count() == 4 * count // 2 + 2 * count // 2
        assert [record.status for record in store.runs.all()] == ["finished"] * 4
    assert is_sound(path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_disk_is_a_clean_error_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FILL, str(path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (2, "")
    kept, _, message = done.stdout.partition(" ")
    assert "could not be written" in message
    assert "answers so far are saved" in message
    assert int(kept) > 0
    assert is_sound(path)
    with Store(path) as store:
        assert store.responses.count() >= int(kept)
        assert store.responses.count() % 50 == 0
