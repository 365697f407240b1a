"""Informer and store against the server's own dict, while watches lose, repeat and reorder events.

Whatever happened, once the faults end the store equals the server. All along, what subscribers were told adds up to
exactly what the store holds, and indexes agree with the objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import looptime
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hanei.kube.errors import Disconnected
from hanei.runtime.informer import Informer, Selection
from tests.unit.runtime_fake import KIND, QUICK, FakeClient, FakeServer, Logged, honest

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanei.kube.client import Client
    from hanei.runtime.store import Cached, Event

NAMES = st.sampled_from("abcdefgh")
RELIST = 100.0


def lossy() -> Callable[[Logged], list[Logged]]:
    """Every second event is lost."""
    count = 0

    def distort(event: Logged) -> list[Logged]:
        nonlocal count
        count += 1
        return [event] if count % 2 else []

    return distort


def repeating() -> Callable[[Logged], list[Logged]]:
    """Every event comes twice, and the one before it once more."""
    last: list[Logged] = []

    def distort(event: Logged) -> list[Logged]:
        told = [event, event, *last]
        last[:] = [event]
        return told

    return distort


def swapping() -> Callable[[Logged], list[Logged]]:
    """Two by two in the wrong order."""
    held: list[Logged] = []

    def distort(event: Logged) -> list[Logged]:
        held.append(event)
        return [held.pop(), held.pop()] if len(held) == 2 else []

    return distort


class StoreModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0, noop_cycles=1)
        self.told: dict[tuple[str, str], Cached] = {}
        self.backup: tuple[int, dict[Any, Any]] | None = None
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self.server = FakeServer()
        self.client = FakeClient(self.server, replace(QUICK, relist=RELIST))
        indexes = {"data": lambda item: [item.raw[-3:].decode()]}
        self.informer = Informer(cast("Client", self.client), Selection(KIND, "ns"), indexes=indexes)
        self.informer.subscribe(self._tell)
        self.task = asyncio.create_task(self.informer.run())

    def _tell(self, event: Event) -> None:
        """What is told must fit what was told before."""
        key = event.item.key
        assert self.told.get(key) == event.old, "the old state is the one told last"
        assert (event.type == "added") == (event.old is None)
        assert (event.type == "deleted") == (event.new is None)
        if event.old and event.new:
            assert event.old.meta.uid == event.new.meta.uid, "another uid is another object"
        if event.new is None:
            del self.told[key]
        else:
            self.told[key] = event.new

    def teardown(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.task)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _do(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()
            await asyncio.sleep(0)

        self.loop.run_until_complete(act())

    @rule(name=NAMES, data=st.integers(0, 9))
    def put(self, name: str, data: int) -> None:
        self._do(lambda: self.server.put(name, data=str(data)))

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        _, name = data.draw(st.sampled_from(sorted(self.server.objects)))
        self._do(lambda: self.server.delete(name))

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """Deleted and made anew at once: another uid."""
        _, name = data.draw(st.sampled_from(sorted(self.server.objects)))

        def act() -> None:
            self.server.delete(name)
            self.server.put(name)

        self._do(act)

    @rule()
    def cut(self) -> None:
        self._do(self.server.cut)

    @rule()
    def compact(self) -> None:
        self._do(self.server.compact)

    @rule(down=st.booleans())
    def go_away_or_come_back(self, down: bool) -> None:
        self.server.failure = Disconnected("away") if down else None
        self._do(self.server.cut)

    @rule(how=st.sampled_from([lossy, repeating, swapping]))
    def distort(self, how: Callable[[], Callable[[Logged], list[Logged]]]) -> None:
        self.client.distort = how()

    @rule()
    def back_up(self) -> None:
        self.backup = self.server.version, copy.deepcopy(self.server.objects)

    @precondition(lambda self: self.backup)
    @rule()
    def restore(self) -> None:
        assert self.backup is not None
        version, self.server.objects = self.backup[0], copy.deepcopy(self.backup[1])
        self._do(lambda: self.server.restore(version))

    @rule(seconds=st.floats(0.001, 60))
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule()
    def settle(self) -> None:
        """Without faults the store is the server's state at last, whatever was lost before."""
        self.client.distort = honest
        self.server.failure = None
        self.loop.run_until_complete(asyncio.sleep(RELIST + 2 * QUICK.watch_timeout))
        held = {item.key: (item.meta.uid, item.meta.resourceVersion) for item in self.informer.store.all()}
        assert held == self.server.state()

    @invariant()
    def what_was_told_is_what_is_held(self) -> None:
        assert not self.task.done()
        store = self.informer.store
        assert {item.key: item for item in store.all()} == self.told
        for value in {item.raw[-3:].decode() for item in store.all()}:
            found = {item.key for item in store.by_index("data", value)}
            assert found == {item.key for item in store.all() if item.raw[-3:].decode() == value}
        assert sum(len(store.by_index("data", f'{n}"}}')) for n in range(10)) <= len(store)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
