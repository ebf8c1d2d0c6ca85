"""Runs with a model behind HTTP: every answer is stored once, and a repeated run sends nothing that is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ModelError
from assay.testing import toy_choice_task, toy_generation_task, toy_perplexity_task
from tests.models.http.fault_server import FaultServer
from tests.models.http.faults import answer, sometimes

Open = Callable[..., Any]


def stored(path: Path) -> int:
    with sqlite3.connect(path) as database:
        count: int = database.execute("select count(*) from responses").fetchone()[0]
    return count


def test_every_answer_is_stored_once_and_never_asked_for_again(opened: Open, tmp_path: Path) -> None:
    tasks = [toy_choice_task(20), toy_generation_task(10), toy_perplexity_task(5)]
    path = tmp_path / "store.db"
    with FaultServer() as server:
        model = opened(server, max_retries=30)
        assert model.fingerprint
        server.fault = sometimes(0.3)
        result = assay.evaluate(model, tasks, store=str(path))
        assert [task.problem for task in result.tasks] == [None] * 3
        count, sent = stored(path), len(server.seen)
        again = assay.evaluate(model, tasks, store=str(path))
        assert (stored(path), len(server.seen)) == (count, sent)
    assert count > 30
    assert [task.metrics for task in again.tasks] == [task.metrics for task in result.tasks]


def test_answers_before_the_end_of_a_run_are_kept(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with FaultServer() as server:
        model = opened(server, num_concurrent=1)
        assert model.fingerprint
        begun = len(server.seen)

        async def fault(request: Any, body: Any, number: int) -> Any:
            return await answer(402)(request) if number >= begun + 5 else None

        server.fault = fault
        with pytest.raises(ModelError, match="Raise the quota"):
            assay.evaluate(model, toy_generation_task(10), store=str(path))
        assert stored(path) == 5
        server.fault, server.seen = None, []
        model.close()
        assay.evaluate(opened(server), toy_generation_task(10), store=str(path))
        prompts = [body for body in server.seen if body["max_tokens"] > 1]
        assert (stored(path), len(prompts)) == (10, 5)


def test_chat_servers_generate_and_refuse_likelihoods_before_the_run(opened: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with FaultServer() as server:
        model = opened(server, "openai-chat")
        result = assay.evaluate(model, toy_generation_task(3), store=path)
        assert result.tasks[0].problem is None and len(server.seen) == 3
        with pytest.raises(ModelError, match="a chat endpoint has no log-likelihoods"):
            assay.evaluate(model, toy_choice_task(3), store=path)


def test_a_refused_server_ends_the_run_before_it_begins(opened: Open, tmp_path: Path) -> None:
    with FaultServer(tokenizes=False) as server:
        with pytest.raises(ModelError, match="log-likelihoods are refused: there is no tokenizer"):
            assay.evaluate(opened(server), toy_choice_task(3), store=str(tmp_path / "store.db"))
        assert server.seen == []
