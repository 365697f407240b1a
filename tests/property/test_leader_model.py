"""Leader election with lost, late and repeated messages, crashes, and clocks that are wrong.

Never do two candidates believe at the same moment that they lead. Once the network is well, somebody leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import looptime
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hanei.errors import LeaderLost
from hanei.kube.errors import Disconnected
from hanei.runtime import leader as leader_module
from hanei.runtime.leader import Leader, LeaseName
from tests.unit.runtime_fake import QUICK, FakeClient, FakeServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hanei.kinds import Kind

CANDIDATES = 3
# Attempts come often and the deadline is late, or a mistake of a second would go unseen.
KNOBS = replace(QUICK, lease_duration=6.0, renew_deadline=5.5, retry_period=0.4)
MODES = ("well", "slow", "no request arrives", "no answer arrives", "answers hang", "mixed")


class Line:
    """The way of one candidate to the server; it can be slow, or lose what is sent or answered."""

    def __init__(self, server: FakeServer, seed: int) -> None:
        self._client = FakeClient(FakeServer(), KNOBS, leases=server)
        self._random = Random(seed)
        self.mode = "well"

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes:
        return await self._carry(lambda: self._client.get(kind, namespace, name))

    async def create(self, kind: Kind, namespace: str | None, body: Mapping[str, Any]) -> bytes:
        return await self._carry(lambda: self._client.create(kind, namespace, body))

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        return await self._carry(lambda: self._client.replace(kind, namespace, name, body))

    async def _carry(self, request: Callable[[], Awaitable[bytes]]) -> bytes:
        mode = self._random.choice(MODES[:-1]) if self.mode == "mixed" else self.mode
        # What was sent goes on even if nobody waits for its answer any more.
        travel = asyncio.ensure_future(self._travel(request, mode))
        travel.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(travel)

    async def _travel(self, request: Callable[[], Awaitable[bytes]], mode: str) -> bytes:
        if mode == "no request arrives":
            await asyncio.sleep(1)
            raise Disconnected("lost on the way there")
        if mode in ("slow", "answers hang"):
            await asyncio.sleep(self._random.uniform(0, 4))
        answer = await request()
        if mode == "no answer arrives":
            raise Disconnected("lost on the way back")
        if mode == "answers hang":
            await asyncio.sleep(1000)
        if mode == "slow":
            await asyncio.sleep(self._random.uniform(0, 4))
        return answer


class LeaderModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0, noop_cycles=1)
        self.numbers = itertools.count()
        self.wrong_clock = Random(7)
        self.original_now = leader_module._now
        # Wall clocks of the machines have nothing to do with each other.
        leader_module._now = lambda: f"20{self.wrong_clock.randrange(10, 99)}-01-01T00:00:00.000000Z"
        self.lines: list[Line] = []
        self.leaders: list[Leader] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self.server = FakeServer()
        for _ in range(CANDIDATES):
            self._enter()
        self.watcher = asyncio.create_task(self._watch())

    def _enter(self) -> None:
        number = next(self.numbers)
        line = Line(self.server, number)
        leader = Leader(line, LeaseName("ns", "lease", f"candidate-{number}"), KNOBS)
        leader._random = Random(number)
        self.lines.append(line)
        self.leaders.append(leader)
        self.tasks.append(asyncio.create_task(self._compete(leader)))

    async def _compete(self, leader: Leader) -> None:
        while True:
            await leader.acquire()
            # Two can only begin to lead together when one of them begins to lead.
            assert self._leading() in ([leader], [])
            with contextlib.suppress(LeaderLost):
                await leader.hold()

    def _leading(self) -> list[Leader]:
        return [leader for leader in self.leaders if leader.is_leader]

    def _ask(self) -> list[Leader]:
        async def ask() -> list[Leader]:
            return self._leading()

        return self.loop.run_until_complete(ask())

    async def _watch(self) -> None:
        while True:
            assert len(self._leading()) <= 1
            await asyncio.sleep(1)

    def teardown(self) -> None:
        leader_module._now = self.original_now
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.01))
        self.loop.close()

    @rule(which=st.integers(0, CANDIDATES - 1), mode=st.sampled_from(MODES))
    def weather(self, which: int, mode: str) -> None:
        self.lines[which].mode = mode

    @rule(mode=st.sampled_from(MODES[1:]), seconds=st.sampled_from([0.0, 2.0, 4.5, 6.0]))
    def trouble_for_the_leader(self, mode: str, seconds: float) -> None:
        for leader in self._ask():
            self.lines[self.leaders.index(leader)].mode = mode
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(seconds=st.sampled_from([0.1, 0.3, 1.0, 2.5, 4.0, 6.0, 15.0]))
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(which=st.integers(0, CANDIDATES - 1), orderly=st.booleans())
    def restart(self, which: int, orderly: bool) -> None:
        """A process ends, giving the Lease back or not, and another takes its place."""

        async def act() -> None:
            leader, task = self.leaders[which], self.tasks[which]
            task.cancel()
            await asyncio.wait({task})
            assert not leader.is_leader, "a leader that holds no longer does not lead"
            if orderly:
                await leader.release()
            self._enter()
            self.lines[which] = self.lines.pop()
            self.leaders[which] = self.leaders.pop()
            self.tasks[which] = self.tasks.pop()

        self.loop.run_until_complete(act())

    @precondition(lambda self: self.server.objects)
    @rule()
    def delete_the_lease(self) -> None:
        """Somebody cleans up while nobody leads."""
        if not self._ask():  # A person who does this under a working leader asks for two.
            self.server.delete("lease")

    @rule()
    def heal(self) -> None:
        """With a good network somebody leads, soon, and keeps leading."""
        for line in self.lines:
            line.mode = "well"
        self.loop.run_until_complete(asyncio.sleep(KNOBS.lease_duration + 2 * KNOBS.renew_deadline))
        before = self._ask()
        assert len(before) == 1
        self.loop.run_until_complete(asyncio.sleep(15))
        assert self._ask() == before

    @invariant()
    def nobody_gave_up(self) -> None:
        assert not self.watcher.done(), self.watcher.exception()
        assert not any(task.done() for task in self.tasks)


TestLeaderModel = LeaderModel.TestCase
TestLeaderModel.settings = settings(
    max_examples=80, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
