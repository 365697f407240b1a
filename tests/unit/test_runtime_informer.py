"""List and watch against a server that loses, repeats and forgets."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from hanei.kube.errors import Disconnected, Forbidden, ServerError, TooManyRequests
from hanei.runtime.informer import Informer, Selection
from hanei.runtime.informers import Informers
from tests.unit.runtime_fake import KIND, QUICK, FakeClient, FakeServer, Logged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hanei.kube.client import Client
    from hanei.runtime.store import Event

pytestmark = pytest.mark.looptime


class Watching:
    """A running informer and everything that it told."""

    def __init__(self, client: FakeClient, **how: Any) -> None:
        self.client = client
        self.server = client.server
        self.informer = Informer(cast("Client", client), Selection(KIND, "ns"), **how)
        self.events: list[Event] = []
        self.informer.subscribe(self.events.append)

    def told(self) -> list[str]:
        """Names of what was told since the last call, with a sign for what happened."""
        signs = {"added": "+", "modified": "~", "deleted": "-"}
        told = [signs[event.type] + event.item.meta.name for event in self.events]
        self.events.clear()
        return told

    def state(self) -> dict[tuple[str, str], tuple[str, str]]:
        return {item.key: (item.meta.uid, item.meta.resourceVersion) for item in self.informer.store.all()}


@contextlib.asynccontextmanager
async def watching(client: FakeClient, **how: Any) -> AsyncIterator[Watching]:
    run = Watching(client, **how)
    task = asyncio.create_task(run.informer.run())
    yield run
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def client(*names: str, **knobs: Any) -> FakeClient:
    server = FakeServer()
    for name in names:
        server.put(name)
    return FakeClient(server, replace(QUICK, **knobs))


async def test_it_lists_in_pages_and_then_follows_changes() -> None:
    """Everything is told once."""
    async with watching(client(*"abcde")) as run:
        await run.informer.synced.wait()
        assert run.told() == ["+a", "+b", "+c", "+d", "+e"]
        run.server.put("f")
        run.server.put("a", data="x")
        run.server.delete("b")
        await asyncio.sleep(1)
        assert run.told() == ["+f", "~a", "-b"]
        assert run.state() == run.server.state()
        assert (run.server.lists, run.informer.epoch) == (1, 1)


async def test_the_server_ending_a_watch_in_time_is_no_error() -> None:
    """It is resumed where it was, without a list and without a wait."""
    async with watching(client("a")) as run:
        await asyncio.sleep(200)
        assert run.server.watches > 5
        assert run.server.lists == 1
        run.server.put("b")
        await asyncio.sleep(0.1)
        assert run.told() == ["+a", "+b"]
        assert run.client.metrics.registry.get_sample_value("hanei_watch_restarts_total", {"kind": "ConfigMap"}) is None


async def test_f49_half_an_hour_of_bookmarks_is_no_object_and_keeps_the_place() -> None:
    """Nothing is told of them, and a server that has forgotten all before the last one is not asked for a list."""
    async with watching(client("a")) as run:
        await run.informer.synced.wait()
        for _ in range(30):
            await asyncio.sleep(60)
            run.server.bookmark()
        await asyncio.sleep(1)
        run.server.compact()
        run.server.cut()
        await asyncio.sleep(60)
        run.server.put("b")
        await asyncio.sleep(1)
        assert run.told() == ["+a", "+b"]
        assert run.state() == run.server.state()
        assert run.informer.epoch == 1


async def test_a_cut_watch_is_resumed_and_misses_nothing() -> None:
    """What happened in between is told."""
    async with watching(client("a")) as run:
        await run.informer.synced.wait()
        await asyncio.sleep(1)
        run.server.cut()
        run.server.put("b")
        run.server.delete("a")
        await asyncio.sleep(5)
        assert run.told() == ["+a", "+b", "-a"]
        assert run.informer.epoch == 1
        assert run.client.metrics.registry.get_sample_value("hanei_watch_restarts_total", {"kind": "ConfigMap"}) == 1


async def test_a_position_too_old_lists_anew_with_deletions_made_up() -> None:
    """What vanished while nobody watched is told as deleted."""
    async with watching(client("a", "b")) as run:
        await run.informer.synced.wait()
        await asyncio.sleep(1)
        run.told()
        run.server.failure = Disconnected("away")
        run.server.cut()
        await asyncio.sleep(30)
        run.server.delete("a")
        run.server.put("b", data="x")
        run.server.put("c")
        run.server.compact()
        run.server.failure = None
        await asyncio.sleep(5)
        assert run.told() == ["-a", "~b", "+c"]
        assert run.state() == run.server.state()
        assert run.informer.epoch == 2


async def test_s07_a_list_that_breaks_off_changes_nothing() -> None:
    """Half a list is no list: nothing is told deleted, and the next whole one is taken over."""
    fake = client(*"abcdef")
    async with watching(fake) as run:
        await run.informer.synced.wait()
        run.told()

        def broken(_: int) -> None:
            run.server.failure = Disconnected("cut")

        fake.on_page = broken
        run.server.compact()
        run.server.put("g")
        run.server.compact()
        run.server.cut()
        await asyncio.sleep(5)
        assert run.told() == []
        assert len(run.informer.store) == 6
        fake.on_page = lambda number: None
        run.server.failure = None
        await asyncio.sleep(5)
        assert run.told() == ["+g"]


async def test_pages_that_outlive_history_are_read_in_one_answer() -> None:
    """410 on a continue token: again, unpaged."""
    fake = client(*"abcdef")

    def forget(_: int) -> None:
        fake.on_page = lambda number: None
        fake.server.put("late")
        fake.server.compact()

    fake.on_page = forget
    async with watching(fake) as run:
        await asyncio.sleep(1)
        assert run.informer.synced.is_set()
        assert len(run.told()) == 7


async def test_s09_a_late_deletion_of_an_earlier_object_removes_nothing() -> None:
    """Compared by uid: deleted and made anew, the new one stays."""
    fake = client("a")
    async with watching(fake) as run:
        await run.informer.synced.wait()
        run.server.delete("a")
        run.server.put("a")
        await asyncio.sleep(1)
        assert run.told() == ["+a", "-a", "+a"]
        assert run.informer.store.remove(("ns", "a"), "uid-1") == []
        assert run.state() == run.server.state()


async def test_s09_an_object_replaced_unseen_is_a_deletion_and_an_addition() -> None:
    """Another uid under the same name is another object, also when only a list shows it."""
    async with watching(client("a")) as run:
        await run.informer.synced.wait()
        await asyncio.sleep(1)
        run.told()
        run.server.delete("a")
        run.server.put("a")
        run.server.compact()
        run.server.cut()
        await asyncio.sleep(5)
        assert run.told() == ["-a", "+a"]


@pytest.mark.parametrize("forward", [False, True])
async def test_a_restored_server_is_noticed_after_the_break(forward: bool) -> None:
    """Its numbers are behind ours, so a watch from our place would stay silent: everything is listed anew."""
    async with watching(client(*"abc")) as run:
        await run.informer.synced.wait()
        await asyncio.sleep(1)
        run.server.objects.pop(("ns", "b"))
        run.server.restore(50)
        if forward:
            run.server.put("d")
        await asyncio.sleep(5)
        assert run.state() == run.server.state()
        assert run.informer.store.restores == 1


async def test_s06_everything_is_listed_anew_every_now_and_then() -> None:
    """Whatever a watch lost without a word is found at last."""
    fake = client("a", relist=100.0)
    async with watching(fake) as run:
        await run.informer.synced.wait()
        fake.distort = lambda event: []
        run.server.put("b")
        await asyncio.sleep(50)
        assert run.told() == ["+a"]
        await asyncio.sleep(100)
        assert run.told() == ["+b"]


async def test_repeated_events_are_told_once() -> None:
    """A repetition is no change."""
    fake = client("a")
    fake.distort = lambda event: [event, event]
    async with watching(fake) as run:
        await run.informer.synced.wait()
        run.server.put("b")
        await asyncio.sleep(1)
        assert run.told() == ["+a", "+b"]


async def test_events_out_of_order_end_in_a_new_list() -> None:
    """A version that runs backwards says that we lost our place."""
    fake = client("a")
    held: list[Logged] = []

    def swap(event: Logged) -> list[Logged]:
        held.append(event)
        return [] if len(held) < 2 else [held.pop(), held.pop()]

    async with watching(fake) as run:
        await run.informer.synced.wait()
        fake.distort = swap
        run.server.put("b")
        run.server.put("c")
        await asyncio.sleep(10)
        assert run.state() == run.server.state()


async def test_a_missing_right_is_waited_for_and_reported() -> None:
    """No sync, no crash, no busy loop, not deaf; and it works as soon as the right is there."""
    fake = client("a")
    fake.server.failure = Forbidden('configmaps is forbidden: User "x" cannot list')
    with capture_logs() as lines:
        async with watching(fake) as run:
            await asyncio.sleep(100)
            assert not run.informer.synced.is_set()
            assert isinstance(run.informer.error, Forbidden)
            assert run.server.lists < 110
            assert asyncio.get_running_loop().time() - run.informer.last_contact < 5
            run.server.failure = None
            await asyncio.sleep(5)
            assert run.informer.synced.is_set()
            assert run.informer.error is None
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1


async def test_an_away_server_is_found_again_within_the_longest_wait() -> None:
    """Minutes later the wait is still short."""
    async with watching(client("a")) as run:
        await run.informer.synced.wait()
        run.server.failure = Disconnected("away")
        run.server.cut()
        await asyncio.sleep(600)
        run.server.put("b")
        run.server.failure = None
        await asyncio.sleep(QUICK.watch_backoff + 0.1)
        assert run.told() == ["+a", "+b"]


async def test_the_servers_wish_to_wait_is_honoured() -> None:
    """A 429 with Retry-After."""
    fake = client("a")
    fake.server.failure = TooManyRequests("slow down", retry_after=30)
    async with watching(fake) as run:
        await asyncio.sleep(100)
        assert run.server.lists == 4


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_pause() -> None:
    """A sick server, not a busy loop."""
    async with watching(client("a", watch_timeout=0.0)) as run:
        await asyncio.sleep(100)
        assert run.server.watches < 120


async def test_a_server_that_keeps_failing_is_asked_for_everything_again() -> None:
    """Perhaps it is the place itself that it cannot serve."""
    async with watching(client("a")) as run:
        await run.informer.synced.wait()
        await asyncio.sleep(1)
        fake_failures = 0
        original = run.server.watch

        def failing(since: int, timeout: float) -> Any:
            nonlocal fake_failures
            fake_failures += 1
            if run.informer.epoch == 1:
                raise ServerError("etcd event without its past")
            return original(since, timeout)

        run.server.watch = failing  # type: ignore[method-assign]
        run.server.cut()
        await asyncio.sleep(30)
        assert run.informer.epoch == 2
        assert fake_failures < 10


async def test_one_odd_object_does_not_keep_us_from_the_others() -> None:
    """A transform or an index that fails leaves the object whole and the others as they are."""

    def picky(raw: bytes) -> Any:
        if b'"odd"' in raw:
            raise ValueError("odd")
        return whole(raw)

    fake = client("a", "odd", "z")
    run = Watching(fake)
    whole = run.informer._transform
    async with watching(fake, transform=picky, indexes={"name": lambda item: [str(1 / len(item.raw[9999:]))]}) as other:
        await other.informer.synced.wait()
        assert other.told() == ["+a", "+odd", "+z"]


async def test_a_subscriber_that_fails_does_not_stop_the_others() -> None:
    """Nor the informer."""
    fake = client("a")
    run = Watching(fake)

    def broken(_: Event) -> None:
        raise RuntimeError("a bug")

    run.informer._subscribers.insert(0, broken)
    task = asyncio.create_task(run.informer.run())
    await asyncio.sleep(1)
    assert run.told() == ["+a"]
    task.cancel()


# Informers


async def test_one_selection_has_one_informer() -> None:
    """Shared by whoever asks; another selector is another one; indexes add up."""
    shared = Informers(cast("Client", client("a")))
    first = shared.get(KIND, "ns", indexes={"one": lambda item: ["x"]})
    assert shared.get(KIND, "ns", indexes={"two": lambda item: ["y"]}) is first
    assert shared.get(KIND, "ns", labels="a=b") is not first
    task = asyncio.create_task(shared.run())
    await first.synced.wait()
    assert len(first.store.by_index("one", "x")) == len(first.store.by_index("two", "y")) == 1
    task.cancel()


async def test_an_acquired_informer_runs_until_its_last_user_is_gone() -> None:
    """Secrets that are watched by name come and go while the process runs."""
    fake = client("a")
    shared = Informers(cast("Client", fake))
    task = asyncio.create_task(shared.run())
    await asyncio.sleep(0)
    one, two = (shared.acquire(KIND, "ns", fields="metadata.name=a") for _ in range(2))
    assert one is two
    await asyncio.wait_for(one.synced.wait(), 5)
    assert shared.unsynced() == ()
    shared.release(one)
    fake.server.put("b")
    await asyncio.sleep(1)
    assert len(one.store) == 2
    shared.release(two)
    fake.server.put("c")
    await asyncio.sleep(1)
    assert (len(one.store), shared.all()) == (2, ())
    again = shared.acquire(KIND, "ns", fields="metadata.name=a")
    await asyncio.wait_for(again.synced.wait(), 5)
    assert len(again.store) == 3
    task.cancel()


async def test_s06_an_informer_that_hears_nothing_is_named_deaf() -> None:
    """For the health endpoint."""
    fake = client("a")
    shared = Informers(cast("Client", fake))
    informer = shared.get(KIND, "ns")
    assert shared.deaf(1) == ()
    task = asyncio.create_task(shared.run())
    await informer.synced.wait()
    fake.server.failure = Disconnected("away")
    fake.server.cut()
    await asyncio.sleep(290)
    assert shared.deaf(300) == ()
    await asyncio.sleep(20)
    assert shared.deaf(300) == (informer,)
    task.cancel()
