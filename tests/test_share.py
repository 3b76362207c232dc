"""The share of the processor that one connection may take."""

import asyncio
import threading
import time

import pytest

from evaluators.chat.pace import Share


def test_the_event_loop_goes_on_while_something_is_read() -> None:
    """Work runs outside of the event loop, so that it can wait for something from the loop."""

    async def wait_for_the_loop() -> bool:
        share, go = Share(), threading.Event()
        asyncio.get_running_loop().call_later(0.01, go.set)
        return await share.spend(lambda: go.wait(60))

    assert asyncio.run(wait_for_the_loop())


def test_work_rests_longer_than_it_takes() -> None:
    """What one connection has done takes at most a quarter of the time, and one piece is done at a time."""
    under_way = threading.Semaphore(1)

    def work() -> float:
        assert under_way.acquire(blocking=False)
        began_s = time.monotonic()
        time.sleep(0.02)
        under_way.release()
        return time.monotonic() - began_s

    async def work_often() -> list[float]:
        share = Share()
        return await asyncio.gather(*(share.spend(work) for _ in range(4)))

    began_s = time.monotonic()
    worked_s = asyncio.run(work_often())
    assert time.monotonic() - began_s >= 4 * sum(worked_s[:3])


def test_work_that_fails_says_so() -> None:
    """What the work raises comes out, and the next piece is done."""

    async def fail_first() -> int:
        share = Share()
        with pytest.raises(ZeroDivisionError):
            await share.spend(lambda: 1 // 0)
        return await share.spend(lambda: 1)

    assert asyncio.run(fail_first()) == 1
