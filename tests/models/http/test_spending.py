"""A budget ends a run before the request that could exceed it; what was spent is in the record and shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.main import main
from assay.core.errors import ModelError
from assay.models.http.spending.budget import Spending
from assay.models.http.spending.prices import Price
from assay.models.http.spending.usage import Size, Usage
from assay.testing import toy_generation_task
from tests.models.http.fault_server import MODEL, FaultServer, Json
from tests.models.http.faults import answer, cut

Open = Callable[..., Any]
PRICES = {"price_in": 1000.0, "price_out": 100_000.0}  # a tenth of a cent, and ten cents, per token


def counting(prompt: int, new: int) -> Callable[[Json, Json], Json]:
    def spoil(body: Json, sound: Json) -> Json:
        return {**sound, "usage": {"prompt_tokens": prompt, "completion_tokens": new}}

    return spoil


def test_a_request_waits_while_those_in_flight_stand_between_it_and_the_budget() -> None:
    async def run() -> list[Any]:
        spending, order = Spending(), []
        spending.limit(None, 36, "m")
        spending.settle(spending.take(Size(5, 10)), Usage(5, 1), True)
        first, second = await spending.reserve(Size(5, 10)), await spending.reserve(Size(5, 10))
        assert isinstance(first, Size) and isinstance(second, Size)

        async def third() -> None:
            order.append(await spending.reserve(Size(5, 10)))

        task = asyncio.create_task(third())
        await asyncio.sleep(0.01)
        order.append("waits")
        spending.settle(first, Usage(5, 1), True)
        await asyncio.sleep(0.01)
        order.append("waits still")  # 12 spent, 15 in flight, 15 wanted
        spending.settle(second, Usage(5, 1), True)
        await task
        return order

    assert asyncio.run(run()) == ["waits", "waits still", Size(5, 10)]


def test_the_first_request_under_a_budget_shows_what_the_others_take() -> None:
    async def one(spending: Spending, sent: list[Size]) -> None:
        size = await spending.reserve(Size(10, 5))
        if isinstance(size, Size):
            sent.append(size)
            await asyncio.sleep(0.001)
            spending.settle(size, Usage(30, 5), True)  # a chat template adds 20 tokens

    async def run() -> tuple[Spending, list[Size]]:
        spending, sent = Spending(), list[Size]()
        spending.limit(None, 200, "m")
        await asyncio.gather(*(one(spending, sent) for _ in range(20)))
        return spending, sent

    spending, sent = asyncio.run(run())
    assert sent == [Size(10, 5), *[Size(30, 5)] * 4]
    assert spending.counted == Usage(150, 25) and spending.refused == 15


def test_the_upper_bound_counts_where_the_server_does_not() -> None:
    async def run() -> Spending:
        spending = Spending(Price(1_000_000.0, 1_000_000.0))
        for billed in (True, False):
            size = await spending.reserve(Size(3, 4))
            assert isinstance(size, Size)
            spending.settle(size, None, billed)
        return spending

    spending = asyncio.run(run())
    assert (spending.dollars, spending.estimated) == (7.0, 1)


def test_estimates_follow_the_servers_counts() -> None:
    async def run() -> Any:
        spending = Spending()
        spending.limit(None, 1000, "m")
        size = await spending.reserve(Size(10, 1))
        assert isinstance(size, Size)
        spending.settle(size, Usage(20, 1), True)
        return await spending.reserve(Size(10, 1))

    assert asyncio.run(run()) == Size(20, 1)


def test_a_run_ends_before_it_exceeds_its_budget_and_goes_on_when_repeated(opened: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with FaultServer(spoil=counting(10, 2)) as server:
        model = opened(server, "openai-chat", **PRICES)
        result = assay.evaluate(model, toy_generation_task(10), store=path, budget=3.0)
        spent = result.model_run["usage"]
        (count, message) = result.failures["budget"]
        assert len(server.seen) + count == 10 and 0 < count < 10
        assert spent["dollars"] <= 3.0 and spent["dollars"] == pytest.approx(0.21 * len(server.seen))
        assert "of $3.00 are spent" in message and "--budget" in message and "answers so far are saved" in message
        sent = len(server.seen)
        again = assay.evaluate(model, toy_generation_task(10), store=path, budget=100)
        assert len(server.seen) == 10 and again.counts.known == sent and again.failures == {}


def test_a_budget_of_tokens_holds(opened: Open, tmp_path: Path) -> None:
    with FaultServer(spoil=counting(10, 2)) as server:
        model = opened(server, "openai-chat")
        result = assay.evaluate(model, toy_generation_task(10), store=str(tmp_path / "s.db"), token_budget=100)
    usage = result.model_run["usage"]
    assert usage["prompt_tokens"] + usage["new_tokens"] <= 100 < 120
    assert result.failures["budget"][0] == usage["refused"]


def test_a_budget_needs_a_price(opened: Open, tmp_path: Path) -> None:
    with FaultServer() as server:
        with pytest.raises(ModelError, match="no price is known"):
            assay.evaluate(
                opened(server, "openai-chat"), toy_generation_task(2), store=str(tmp_path / "s.db"), budget=1.0
            )
        assert server.seen == []


def test_answers_that_are_asked_again_are_paid_for(opened: Open, tmp_path: Path) -> None:
    empty = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    makers = [answer(200, empty), cut, answer(500), None]

    async def fault(request: Any, body: Json, number: int) -> Any:
        return await makers[number](request) if makers[number] else None  # type: ignore[misc]

    with FaultServer(fault=fault, spoil=counting(10, 2)) as server:
        model = opened(server, "openai-chat", num_concurrent=1, **PRICES)
        result = assay.evaluate(model, toy_generation_task(1), store=str(tmp_path / "s.db"))
    usage = result.model_run["usage"]
    assert (usage["prompt_tokens"], usage["new_tokens"], usage["without_a_count"]) == (17, 5, 1)
    assert usage["dollars"] > 0.017 + 0.5


def arguments(server: FaultServer, tmp_path: Path) -> list[str]:
    task = tmp_path / "toy.yaml"
    rows = [{"q": f"question {number}"} for number in range(6)]
    (tmp_path / "toy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task.write_text(
        f"task: toy\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path / 'toy.jsonl'}}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: x\n"
        "generation_kwargs: {until: ['\\n'], max_gen_toks: 3}\nmetric_list: [{metric: exact_match}]\n",
        encoding="utf-8",
    )
    model = f"model={MODEL},base_url={server.url},price_in=1000,price_out=100000"
    return ["--model", "openai-chat", "--model_args", model, "--tasks", str(task), "--store", str(tmp_path / "s.db")]


def test_the_command_says_what_it_spent_and_exits_with_3(tmp_path: Path, capsys: Any) -> None:
    with FaultServer(spoil=counting(10, 2)) as server:
        command = ["run", *arguments(server, tmp_path)]
        assert main([*command, "--budget", "1.0"]) == 3
        shown = " ".join(capsys.readouterr().out.split())
        assert "prompt tokens" in shown and "$0.84" in shown and "× budget" in shown
        assert main(command) == 0
        assert len(server.seen) == 6


def test_a_plan_shows_the_price_and_a_budget_that_is_too_small(tmp_path: Path, capsys: Any) -> None:
    with FaultServer() as server:
        command = ["plan", *arguments(server, tmp_path)]
        assert main([*command, "--budget", "0.5", "--token_budget", "20"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "cost: at most about $1.8" in shown and "$1000 in, $100000 out per million tokens" in shown
        assert "a run stops before it exceeds --budget 0.5" in shown and "--token_budget 20" in shown
        assert server.seen == []
        assert main([part.replace(",price_in=1000,price_out=100000", "") for part in command]) == 0
        assert "cost: no price known for" in " ".join(capsys.readouterr().out.split())
