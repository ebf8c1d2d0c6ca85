"""The number of requests in flight: it grows with successes and is cut once per pause."""

from __future__ import annotations

import asyncio

from assay.models.http.spending.usage import Size
from assay.models.http.traffic.pacing import Pacing


def test_the_limit_doubles_until_the_first_rate_limit_and_then_grows_by_one() -> None:
    async def run() -> list[int]:
        pacing, limits = Pacing(64), []
        for is_success in [True] * (8 + 16) + [False] + [True] * (16 + 17):
            pacing.succeeded() if is_success else pacing.pause(0)
            limits.append(pacing.limit)
        return limits

    limits = asyncio.run(run())
    assert [limits[place] for place in (6, 7, 23, 24, 40, 57)] == [8, 16, 32, 16, 17, 18]


def test_rate_limits_of_one_burst_cut_once() -> None:
    async def run() -> Pacing:
        pacing = Pacing(8)
        for _ in range(8):
            pacing.pause(0)
        return pacing

    assert asyncio.run(run()).limit == 4


def test_a_slot_is_waited_for_and_never_lost() -> None:
    async def run() -> tuple[int, int]:
        pacing, active, most = Pacing(3), 0, 0

        async def work(number: int) -> None:
            nonlocal active, most
            await pacing.enter(Size())
            try:
                active += 1
                most = max(most, active)
                await asyncio.sleep(0.001 * (number % 3))
            finally:
                active -= 1
                pacing.leave(Size())

        tasks = [asyncio.create_task(work(number)) for number in range(60)]
        await asyncio.sleep(0.002)
        for task in tasks[10:20]:
            task.cancel()  # some of them wait for a slot
        ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        return most, sum(found is None for found in ended)

    most, done = asyncio.run(run())
    assert most <= 3 and done >= 50
