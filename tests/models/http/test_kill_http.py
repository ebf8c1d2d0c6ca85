"""The whole command against a faulty server, killed in the middle and repeated: each answer is stored once, none is
lost, none is wrong, and nothing is paid for twice but what was on its way at the kill."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.models.http.fault_server import MODEL, FaultServer, Json, greedy, ids_of, text_of
from tests.models.http.faults import PAUSING, RETRIED

NEW_TOKENS = 3
IN_FLIGHT = 64
# Share of rate limits among the faults: as many as of others would keep the number of requests in flight low.
RATE_LIMITS = 0.02
# An answer is in the store this long after its arrival: the time that the writer gathers answers, and a commit.
SECONDS_TO_STORE = 0.5


@dataclass
class Till:
    """A fault that also counts what was answered: prompt → the moments of its sound answers."""

    faulty: float
    limits_from: int = 0
    sold: dict[str, list[float]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    _draw: random.Random = field(default_factory=lambda: random.Random(5))

    async def __call__(self, request: web.Request, body: Json, number: int) -> Any:
        await asyncio.sleep(self._draw.uniform(0.01, 0.06))
        if self._draw.random() < self.faulty:
            is_limit = number >= self.limits_from and self._draw.random() < RATE_LIMITS
            maker = self._draw.choice(PAUSING if is_limit else RETRIED)
            self.faults[getattr(maker, "__name__", "?")] += 1
            return await maker(request)
        self.sold.setdefault(body["messages"][0]["content"], []).append(time.monotonic())
        return None


def write_task(folder: Path, documents: int) -> None:
    rows = [{"q": f"question {number}"} for number in range(documents)]
    (folder / "toy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "toy.yaml").write_text(
        f"task: toy\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'toy.jsonl'}}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: x\n"
        f"generation_kwargs: {{until: ['NEVER'], max_gen_toks: {NEW_TOKENS}}}\n"
        "metric_list: [{metric: exact_match}]\n",
        encoding="utf-8",
    )


def start(server: FaultServer, folder: Path, output: str = "out", more: str = "") -> subprocess.Popen[str]:
    arguments = f"model={MODEL},base_url={server.url},num_concurrent={IN_FLIGHT},max_retries=50,backoff=0.01,{more}"
    arguments = arguments.rstrip(",")
    command = [sys.executable, "-m", "assay", "run", "--model", "openai-chat", "--model_args", arguments]
    command += ["--tasks", str(folder / "toy.yaml"), "--store", str(folder / "store.db")]
    command += ["--output_path", str(folder / output), "--log_samples"]
    environment = {**os.environ, "ASSAY_CACHE": str(folder / "cache")}
    environment.pop("OPENAI_API_KEY", None)
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
    )


def finish(process: subprocess.Popen[str]) -> None:
    shown, _ = process.communicate(timeout=1500)
    assert process.returncode == 0, shown[-3000:]


def stored(folder: Path) -> int:
    with sqlite3.connect(folder / "store.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        count: int = database.execute("SELECT count(*) FROM responses").fetchone()[0]
    return count


def check_answers(folder: Path, documents: int, output: str = "out") -> None:
    """Every document has the model's own answer."""
    (samples,) = (folder / output).rglob("samples_toy_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    found = {row["doc"]["q"]: row["resps"][0][0] for row in rows}
    wanted = {f"question {number}" for number in range(documents)}
    assert found == {text: text_of(greedy(ids_of(text, True), NEW_TOKENS)) for text in wanted}
    assert stored(folder) == documents


def run_without_a_kill(folder: Path, documents: int) -> FaultServer:
    write_task(folder, documents)
    till = Till(0.3, limits_from=documents // 2)
    with FaultServer(fault=till) as server:
        finish(start(server, folder))
        check_answers(folder, documents)
        # Faults that come after an answer was made, cut bodies among them, are not sound answers.
        assert {text: len(moments) for text, moments in till.sold.items()} == dict.fromkeys(till.sold, 1)
        assert len(till.sold) == documents and sum(till.faults.values()) > 0.2 * documents
    return server


def run_with_a_kill(folder: Path, documents: int) -> tuple[int, int]:
    """The number of requests in flight at the kill, and of those that were answered twice."""
    write_task(folder, documents)
    till = Till(0.3)
    with FaultServer(fault=till) as server:
        process = start(server, folder)
        while len(till.sold) < 0.4 * documents:
            assert process.poll() is None, process.communicate()[0][-3000:]
            time.sleep(0.002)
        in_flight = server._at_once
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        process.communicate()
        kept = stored(folder)
        time.sleep(0.2)  # what was in flight is answered to nobody
        finish(start(server, folder, "again"))
        check_answers(folder, documents, "again")
    twice = {text: moments for text, moments in till.sold.items() if len(moments) > 1}
    assert max(len(moments) for moments in till.sold.values()) <= 2
    assert min(moments[0] for moments in twice.values()) > killed - SECONDS_TO_STORE
    assert 0 < kept < documents and len(till.sold) == documents
    return in_flight, len(twice)


def test_every_answer_is_stored_once_through_the_whole_command(tmp_path: Path) -> None:
    server = run_without_a_kill(tmp_path, 300)
    assert server.most_at_once > 8


def test_a_killed_run_pays_twice_only_for_what_was_on_its_way(tmp_path: Path) -> None:
    in_flight, twice = run_with_a_kill(tmp_path, 300)
    assert twice <= in_flight + IN_FLIGHT


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_answers_through_the_whole_command(tmp_path: Path) -> None:
    server = run_without_a_kill(tmp_path, 10_000)
    print(f"requests: {len(server.seen)}, most at once: {server.most_at_once}")
    assert server.most_at_once > 0.9 * IN_FLIGHT


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_kill_in_the_middle_of_ten_thousand_answers(tmp_path: Path) -> None:
    in_flight, twice = run_with_a_kill(tmp_path, 10_000)
    print(f"in flight at the kill: {in_flight}, answered twice: {twice}")
    assert twice <= in_flight + IN_FLIGHT
