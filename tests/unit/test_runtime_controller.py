"""What follows from how a reconcile ended."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from hanei.errors import HaneiError, RenderError
from hanei.kube.errors import Conflict, Invalid, TooManyRequests
from hanei.observe.metrics import Metrics
from hanei.runtime.controller import Controller, Key, Result
from hanei.runtime.workqueue import WorkQueue
from tests.unit.runtime_fake import QUICK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.looptime

A, B = ("ns", "a"), ("ns", "b")


class Run:
    """A controller whose reconciles follow a script: per key what each run does; afterwards all goes well."""

    def __init__(self, script: dict[Key, list[Result | Exception]], keys: Callable[[], list[Key]] = list) -> None:
        self.script = script
        self.runs: list[tuple[float, Key]] = []
        self.metrics = Metrics()
        self.queue = WorkQueue[Key](base=1, cap=60)
        settings = replace(QUICK, resync=1000.0, refused_retry=300.0)
        self.controller = Controller("test", self._reconcile, self.queue, 2, settings, keys=keys)

    async def _reconcile(self, key: Key) -> Result:
        self.runs.append((asyncio.get_running_loop().time(), key))
        steps = self.script.get(key, [])
        step = steps.pop(0) if steps else Result()
        if isinstance(step, Exception):
            raise step
        return step

    def times(self, key: Key) -> list[float]:
        return [round(time, 3) for time, seen in self.runs if seen == key]

    def count(self, result: str) -> float:
        value = self.metrics.registry.get_sample_value(
            "hanei_reconcile_total", {"controller": "test", "result": result}
        )
        return value or 0.0


@contextlib.asynccontextmanager
async def running(script: dict[Key, list[Any]], keys: Callable[[], list[Key]] = list) -> AsyncIterator[Run]:
    run = Run(script, keys)
    task = asyncio.create_task(run.controller.run(run.metrics))
    for key in script:
        run.queue.add(key)
    yield run
    run.queue.shutdown()
    await task


async def test_a_result_may_ask_for_another_run() -> None:
    """After the seconds that it says."""
    async with running({A: [Result(requeue_after=30)]}) as run:
        await asyncio.sleep(100)
        assert run.times(A) == [0, 30]
        assert (run.count("requeued"), run.count("done")) == (1, 1)


async def test_a_retryable_error_is_tried_again_with_growing_waits() -> None:
    """And forgotten once it worked."""
    async with running({A: [Conflict("x"), Conflict("x"), Conflict("x")]}) as run:
        await asyncio.sleep(100)
        first, second, third, fourth = run.times(A)
        assert 0.5 <= second - first <= 1 <= third - second <= 2 <= fourth - third <= 4
        assert run.queue.failures(A) == 0
        assert (run.count("retried"), run.count("done")) == (3, 1)


async def test_the_servers_wish_to_wait_is_honoured() -> None:
    """Retry-After of a 429."""
    async with running({A: [TooManyRequests("slow down", retry_after=50)]}) as run:
        await asyncio.sleep(100)
        assert run.times(A) == [0, 50]


@pytest.mark.parametrize("error", [Invalid("bad"), RenderError("bad", component="x"), HaneiError("bad")])
async def test_an_error_that_trying_again_cannot_mend_waits_long(error: HaneiError) -> None:
    """Until something changes, or the long wait is over."""
    async with running({A: [error]}) as run:
        await asyncio.sleep(299)
        assert run.times(A) == [0]
        await asyncio.sleep(2)
        assert run.times(A) == [0, 300]
        assert run.count("refused") == 1


async def test_s82_a_change_is_worked_on_at_once_whatever_the_wait() -> None:
    """A key that waits after a failure is not stuck: an event runs it now."""
    async with running({A: [Invalid("bad")]}) as run:
        await asyncio.sleep(10)
        run.queue.forget(A)
        run.queue.add(A)
        await asyncio.sleep(1000)
        assert run.times(A)[:2] == [0, 10]


async def test_the_same_complaint_is_said_once() -> None:
    """Not once per attempt; and it is said when it is over."""
    with capture_logs() as lines:
        async with running({A: [Conflict("x"), Conflict("x"), Conflict("y")]}):
            await asyncio.sleep(100)
    assert [(line["log_level"], line.get("error")) for line in lines] == [
        ("warning", "x"), ("warning", "y"), ("info", None),
    ]  # fmt: skip


async def test_a_crash_is_logged_with_its_traceback_and_stops_nothing() -> None:
    """A poisoned object never stops the queue."""
    with capture_logs() as lines:
        async with running({A: [ZeroDivisionError(), ZeroDivisionError()], B: []}) as run:
            await asyncio.sleep(100)
            assert len(run.times(A)) == 3
            assert run.times(B) == [0]
            assert run.count("crashed") == 2
    assert all(line["exc_info"] for line in lines if line["log_level"] == "error")


async def test_everything_is_reconciled_at_the_start_and_every_now_and_then() -> None:
    """From the cache, without a cause."""
    async with running({}, keys=lambda: [A, B]) as run:
        await asyncio.sleep(1150)
        assert len(run.times(A)) == len(run.times(B)) == 2
        assert 900 <= run.times(A)[1] <= 1100


async def test_the_depth_of_the_queue_is_measured() -> None:
    """Keys that wait, not those being worked on."""
    run = Run({})
    task = asyncio.create_task(run.controller.run(run.metrics))
    await asyncio.sleep(1)
    for number in range(5):
        run.queue.add(("ns", str(number)))
    value = run.metrics.registry.get_sample_value("hanei_workqueue_depth", {"controller": "test"})
    assert value == 5
    run.queue.shutdown()
    await task
