"""The queue's promises, one by one; `tests/property` tries them in any order."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from hanei.runtime.workqueue import QueueShutDown, WorkQueue

pytestmark = pytest.mark.looptime


async def _taken(queue: WorkQueue[str]) -> list[str]:
    """Everything that is ready, taken and done."""
    taken = []
    while len(queue):
        taken.append(await queue.get())
        queue.done(taken[-1])
    return taken


async def test_a_key_added_twice_is_given_out_once() -> None:
    """In the order of the first addition."""
    queue = WorkQueue[str]()
    for key in "abab":
        queue.add(key)
    assert await _taken(queue) == ["a", "b"]


async def test_a_key_added_while_it_runs_runs_once_more_afterwards_behind_the_others() -> None:
    """Never twice at the same time, never lost, and it starves nobody."""
    queue = WorkQueue[str]()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    queue.done("a")
    assert await _taken(queue) == ["b", "a"]


async def test_the_earliest_of_several_delays_counts() -> None:
    """Whichever was asked for first."""
    queue, loop = WorkQueue[str](), asyncio.get_running_loop()
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    queue.add_after("a", 30)
    assert await queue.get() == "a"
    assert loop.time() == pytest.approx(5)
    queue.done("a")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_a_run_covers_the_delays_asked_for_before_it() -> None:
    """A key that was due anyway is not run again for its old reason; a delay asked for while it runs holds."""
    queue, loop = WorkQueue[str](), asyncio.get_running_loop()
    queue.add_after("a", 10)
    queue.add("a")
    await queue.get()
    queue.add_after("a", 30)
    queue.done("a")
    await queue.get()
    assert loop.time() == pytest.approx(30)


async def test_waits_grow_with_failures_up_to_the_cap_and_start_small_after_success() -> None:
    """With jitter that only shortens, and no less than the server asked for."""
    queue = WorkQueue[str](base=1, cap=8, random=Random(1))
    waits = [queue.add_backoff("a") for _ in range(6)]
    for wait, full in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= wait <= full
    assert len(set(waits)) == len(waits)
    queue.forget("a")
    assert queue.add_backoff("a") <= 1
    assert queue.add_backoff("a", at_least=100) == 100


async def test_many_failures_do_not_overflow() -> None:
    """A key may fail for weeks."""
    queue = WorkQueue[str](cap=60)
    assert all(queue.add_backoff("a") <= 60 for _ in range(5000))


async def test_a_shutdown_wakes_every_worker_and_takes_nothing_more() -> None:
    """Waiting workers end; one that runs may finish."""
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.add_after("b", 1)
    queue.shutdown()
    queue.add("c")
    queue.done("a")
    await asyncio.sleep(10)
    assert len(queue) == 0
    for worker in workers:
        with pytest.raises(QueueShutDown):
            await worker


async def test_a_worker_that_gives_up_waiting_takes_no_key_with_it() -> None:
    """A cancelled get loses nothing."""
    queue = WorkQueue[str]()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await queue.get() == "a"
