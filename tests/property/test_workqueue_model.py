"""The work queue against a model of it that is obviously right, under any order of calls and any passing of time."""

from __future__ import annotations

import asyncio
from random import Random

import looptime
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hanei.runtime.workqueue import WorkQueue

KEYS = st.sampled_from("abcd")
CAP = 8.0


class QueueModel(RuleBasedStateMachine):
    """Delays end on quarters of a second and time passes in halves, so that no two things happen at once."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0, noop_cycles=1)
        self.ready: list[str] = []
        self.running: set[str] = set()
        self.again: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.overtaken: dict[str, set[str]] = {}

    @initialize(seed=st.integers())
    def start(self, seed: int) -> None:
        async def make() -> WorkQueue[str]:
            return WorkQueue[str](base=1.0, cap=CAP, random=Random(seed))

        self.queue = self.loop.run_until_complete(make())

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.shutdown()
        self.loop.close()

    def _add(self, key: str) -> None:
        if key in self.running:
            self.again.add(key)
        elif key not in self.ready:
            self.ready.append(key)

    def _later(self, key: str, wait: float) -> None:
        when = self.loop.time() + wait
        if when < self.due.get(key, float("inf")):
            self.due.pop(key, None)  # what falls due at one moment comes in the order in which it was asked for
            self.due[key] = when

    def _call(self, method: str, *args: object) -> object:
        async def call() -> object:
            return getattr(self.queue, method)(*args)

        return self.loop.run_until_complete(call())

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self._call("add", key)
        self._add(key)

    @rule(key=KEYS, seconds=st.integers(0, 9))
    def add_after(self, key: str, seconds: int) -> None:
        self._call("add_after", key, seconds + 0.25)
        self._later(key, seconds + 0.25)

    @rule(key=KEYS)
    def add_backoff(self, key: str) -> None:
        wait = self._call("add_backoff", key)
        assert isinstance(wait, float)
        self.failures[key] = self.failures.get(key, 0) + 1
        full = min(CAP, 2.0 ** (self.failures[key] - 1))
        assert full / 2 <= wait <= full
        self._later(key, wait)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self._call("forget", key)
        self.failures.pop(key, None)

    @precondition(lambda self: self.ready)
    @rule()
    def take(self) -> None:
        key = self.loop.run_until_complete(self.queue.get())
        assert key == self.ready.pop(0), "first in, first out"
        assert key not in self.running, "one run per key"
        self.running.add(key)
        self.due.pop(key, None)

    @precondition(lambda self: not self.ready)
    @rule()
    def wait_in_vain(self) -> None:
        async def wait() -> bool:
            waiting = asyncio.ensure_future(self.queue.get())
            for _ in range(5):
                await asyncio.sleep(0)
            vain = not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
            return vain

        assert self.loop.run_until_complete(wait())

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self._call("done", key)
        self.running.discard(key)
        if key in self.again:
            self.again.discard(key)
            self._add(key)

    @rule(halves=st.integers(1, 12))
    def pass_time(self, halves: int) -> None:
        until = self.loop.time() + halves / 2
        self.loop.run_until_complete(asyncio.sleep(halves / 2))
        for key, when in sorted(self.due.items(), key=lambda item: item[1]):
            if when <= until:
                del self.due[key]
                self._add(key)

    @invariant()
    def nothing_is_lost_or_made_up(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue) == len(self.ready) + len(self.again)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
