"""The process as a whole: the order of its start, losing the Lease, and how it stops."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hanei.errors import LeaderLost
from hanei.kube.errors import Disconnected, Forbidden
from hanei.runtime.controller import Controller, Key, Result
from hanei.runtime.leader import Leader, LeaseName
from hanei.runtime.manager import Manager
from hanei.runtime.workqueue import WorkQueue
from tests.unit.runtime_fake import KIND, QUICK, FakeClient, FakeServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hanei.kube.client import Client

pytestmark = pytest.mark.looptime


class Process:
    """A manager over a fake server whose reconciles are written down."""

    def __init__(self, server: FakeServer, work: Callable[[Key], Awaitable[Any]] | None = None, **knobs: Any) -> None:
        self.fake = FakeClient(server, replace(QUICK, **knobs))
        self.client = cast("Client", self.fake)
        self.leader = Leader(self.client, LeaseName("ns", "lease"), self.client.settings)
        self.manager = Manager(self.client, leader=self.leader)
        self.seen: list[Key] = []
        self.work = work
        self.stop = asyncio.Event()
        queue = WorkQueue[Key]()
        informer = self.manager.informers.get(KIND, "ns")
        informer.subscribe(lambda event: queue.add(event.item.key))
        self.manager.add_controller(Controller("test", self._reconcile, queue, 2, self.client.settings))

    async def _reconcile(self, key: Key) -> Result:
        self.seen.append(key)
        if self.work is not None:
            await self.work(key)
        return Result()

    async def __aenter__(self) -> Process:
        self.task = asyncio.create_task(self.manager.run(self.stop))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.task


async def test_it_reconciles_what_is_there_and_what_changes() -> None:
    """From start to the first reconcile and on to a change."""
    server = FakeServer()
    server.put("a")
    async with Process(server) as process:
        await process.manager.started.wait()
        await asyncio.sleep(1)
        server.put("b")
        await asyncio.sleep(1)
    assert process.seen == [("ns", "a"), ("ns", "b")]


async def test_nothing_is_reconciled_before_the_caches_are_synced() -> None:
    """While the server is away nothing is acted on, readiness says so, and work begins when it is back."""
    server = FakeServer()
    server.put("a")
    server.failure = Disconnected("away")
    async with Process(server) as process:
        await asyncio.sleep(60)
        assert process.seen == []
        assert "away" in process.manager.readiness()[0]
        server.failure = None
        await asyncio.sleep(5)
        assert process.seen == [("ns", "a")]
        assert process.manager.readiness() == []


async def test_a_stop_lets_a_running_reconcile_finish_and_gives_the_lease_back() -> None:
    """The graceful way out."""
    server = FakeServer()
    server.put("a")
    finished: list[Key] = []

    async def slowly(key: Key) -> None:
        await asyncio.sleep(2)
        finished.append(key)

    async with Process(server, slowly) as process:
        await process.manager.started.wait()
        await asyncio.sleep(1)
    assert finished == [("ns", "a")]
    assert process.fake.leases.objects["ns", "lease"]["spec"].get("holderIdentity", "") == ""


@pytest.mark.parametrize("down", [False, True])
async def test_a_stop_takes_less_than_five_seconds_whatever_hangs(down: bool) -> None:
    """A reconcile that never ends, and an API server that is away."""
    server = FakeServer()
    server.put("a")

    async def never(_: Key) -> None:
        await asyncio.get_running_loop().create_future()

    loop = asyncio.get_running_loop()
    async with Process(server, never) as process:
        await process.manager.started.wait()
        await asyncio.sleep(1)
        if down:
            server.failure = Disconnected("away")
        asked = loop.time()
    assert loop.time() - asked < 5


async def test_a_stop_does_not_wait_for_what_a_cancelled_reconcile_still_wants_to_do() -> None:
    """A last status to a server that hangs, and another try of it."""
    server = FakeServer()
    server.put("a")
    cleanups: list[bool] = []

    async def never(_: Key) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await asyncio.sleep(30)
            finally:
                cleanups.append(True)
                await asyncio.sleep(30)

    loop = asyncio.get_running_loop()
    async with Process(server, never) as process:
        await process.manager.started.wait()
        await asyncio.sleep(1)
        asked = loop.time()
    assert loop.time() - asked < 5
    assert cleanups == [True]


async def test_s06_a_process_that_hears_nothing_is_not_healthy() -> None:
    """Every informer is named, so that a person sees which."""
    server = FakeServer()
    async with Process(server) as process:
        await process.manager.started.wait()
        assert process.manager.health() == []
        server.failure = Disconnected("away")
        server.cut()
        await asyncio.sleep(process.client.settings.deaf_after + 30)
        assert process.manager.health() == ["no contact with the API server: configmaps in ns"]


async def test_a_missing_right_keeps_the_process_waiting_and_alive() -> None:
    """Not ready, with the right in the report; healthy, since a restart would not help."""
    server = FakeServer()
    server.failure = Forbidden("configmaps is forbidden")
    async with Process(server) as process:
        await asyncio.sleep(2 * process.client.settings.deaf_after)
        assert process.manager.health() == []
        assert process.manager.readiness() == ["not synced: configmaps in ns: configmaps is forbidden"]
        assert not process.task.done()


async def test_a_stop_while_waiting_for_anything_is_immediate() -> None:
    """Before the sync there is nothing to finish."""
    server = FakeServer()
    server.failure = Disconnected("away")
    loop = asyncio.get_running_loop()
    async with Process(server):
        await asyncio.sleep(10)
        asked = loop.time()
    assert loop.time() - asked < 0.5


async def test_a_lost_lease_cancels_the_work_at_once_and_the_process_goes_on() -> None:
    """When the Lease cannot be renewed, work stops by the deadline; when it can be had again, all is reconciled."""
    server = FakeServer()
    server.put("a")
    cancelled: list[float] = []

    async def never(_: Key) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(asyncio.get_running_loop().time())
            raise

    async with Process(server, never) as process:
        await process.manager.started.wait()
        await asyncio.sleep(1)
        server.failure = Disconnected("away")
        lost_by = asyncio.get_running_loop().time() + process.client.settings.renew_deadline
        await asyncio.sleep(15)
        assert len(cancelled) == 1
        assert cancelled[0] <= lost_by
        assert not process.leader.is_leader
        server.failure = None
        await asyncio.sleep(5)
        assert process.leader.is_leader
        assert process.seen == [("ns", "a"), ("ns", "a")]


async def test_a_reconcile_that_finds_the_lease_lost_ends_the_term() -> None:
    """The operator may notice first; its key is not lost."""
    server = FakeServer()
    server.put("a")
    raised: list[bool] = []

    async def notice(_: Key) -> None:
        if not raised:
            raised.append(True)
            raise LeaderLost("somebody else")

    async with Process(server, notice) as process:
        await asyncio.sleep(5)
        assert process.seen == [("ns", "a"), ("ns", "a")]


async def test_background_work_that_fails_is_started_again_and_stops_nothing() -> None:
    """Collecting slices and the like must not end the process."""
    server = FakeServer()
    runs: list[bool] = []

    async def broken() -> None:
        runs.append(True)
        raise RuntimeError("a bug")

    process = Process(server)
    process.manager.add_background("broken", broken)
    async with process:
        await asyncio.sleep(100)
        assert len(runs) == 2
        server.put("a")
        await asyncio.sleep(1)
        assert process.seen == [("ns", "a")]
