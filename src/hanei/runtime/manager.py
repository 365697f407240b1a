"""One operator process from start to stop: informers, then the Lease, then the controllers.

Made by `hanei run` (and tests), which add controllers and ask `informers` for what these read. The order is fixed:
informers start → all required ones are synced → this process leads → controllers work. A lost Lease cancels the work
at once and waits for the Lease again; the process goes on. A stop lets running reconciles finish for a moment, gives
the Lease back and ends in less than 5 s, whether the API server answers or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from typing import TYPE_CHECKING

from hanei.errors import LeaderLost
from hanei.observe.logs import get_logger
from hanei.runtime.http import serving
from hanei.runtime.informers import Informers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from hanei.kube.client import Client
    from hanei.runtime.controller import Controller
    from hanei.runtime.leader import Leader
    from hanei.settings import OperatorSettings

log = get_logger(__name__)

_REMIND = 10.0
"""How often it is said what is still waited for."""

_IMPATIENCE = 0.5
"""How long a cancelled reconcile may still take before it is cancelled again."""


class Manager:
    """Runs controllers over shared informers. Without a `leader` it works at once."""

    def __init__(
        self, client: Client, settings: OperatorSettings | None = None, *, leader: Leader | None = None
    ) -> None:
        self.settings = settings or client.settings
        self.metrics = client.metrics
        self.informers = Informers(client)
        self.leader = leader
        self.started = asyncio.Event()
        """Set while the controllers work."""
        self.http_address: tuple[str, int] | None = None
        self._controllers: list[Controller] = []
        self._background: dict[str, Callable[[], Awaitable[None]]] = {}
        self._synced = False

    def add_controller(self, controller: Controller) -> None:
        """Run this controller whenever this process leads."""
        self._controllers.append(controller)

    def add_background(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run this beside the controllers whenever this process leads; it is cancelled with them and may end itself."""
        self._background[name] = run

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then end in an orderly way."""
        async with self._probes(), asyncio.TaskGroup() as group:
            informers = group.create_task(self.informers.run(), name="informers")
            work = group.create_task(self._work(stop), name="work")
            await stop.wait()
            log.info("Stopping")
            await self._drain(work)
            if self.leader is not None:
                await self.leader.release()
            informers.cancel()
        log.info("Stopped")

    def health(self) -> list[str]:
        """What only a restart may mend: informers that hear nothing. Part of /healthz."""
        deaf = self.informers.deaf(self.settings.deaf_after)
        return [f"no contact with the API server: {item.selection}" for item in deaf]

    def readiness(self) -> list[str]:
        """What is missing until this process works, or could take over from the leader. Part of /readyz."""
        waiting = [f"not synced: {item.selection}: {item.error or 'listing'}" for item in self.informers.unsynced()]
        return waiting or ([] if self._synced else ["starting"])

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    async def _work(self, stop: asyncio.Event) -> None:
        """Everything between synced and stopped; leads as often as the Lease is won."""
        await self._sync()
        while not stop.is_set():
            if self.leader is not None:
                await self.leader.acquire()
            try:
                await self._lead(stop)
            except* LeaderLost as lost:
                log.warning("No longer leading", because=str(_first(lost)))

    async def _sync(self) -> None:
        """Wait for all required informers, and say every now and then what for."""
        while waiting := self.informers.unsynced():
            for item in waiting:
                try:
                    async with asyncio.timeout(_REMIND):
                        await item.synced.wait()
                except TimeoutError:
                    log.warning("Still waiting", selection=str(item.selection), error=str(item.error or "listing"))
        # What is cached now mostly stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        self._synced = True
        log.info("Synced", informers=len(self.informers.all()))

    async def _lead(self, stop: asyncio.Event) -> None:
        """Run all controllers until a stop, and their last reconcile. Raises LeaderLost (in a group)."""
        async with asyncio.TaskGroup() as around:
            beside = [around.create_task(self._beside(name, run), name=name) for name, run in self._background.items()]
            if self.leader is not None:
                beside.append(around.create_task(self.leader.hold(), name="lease"))
            self.started.set()
            self.metrics.leader.set(1)
            try:
                async with asyncio.TaskGroup() as work:
                    work.create_task(stop.wait(), name="until stopped")
                    for controller in self._controllers:
                        work.create_task(controller.run(self.metrics), name=controller.name)
            finally:
                self.started.clear()
                self.metrics.leader.set(0)
            for task in beside:
                task.cancel()

    async def _beside(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Background work; if it fails, the controllers go on without it until it is started again."""
        while True:
            try:
                await run()
                return
            except LeaderLost:
                raise
            except Exception:
                log.exception("Background work failed, starting it again", name=name)
                await asyncio.sleep(self.settings.backoff_cap)

    async def _drain(self, work: asyncio.Task[None]) -> None:
        """Let running reconciles finish for a moment; what did nothing yet ends at once."""
        for controller in self._controllers:
            controller.queue.shutdown()
        if self.started.is_set():
            await asyncio.wait({work}, timeout=self.settings.stop_grace)
        work.cancel()
        while not (await asyncio.wait({work}, timeout=_IMPATIENCE))[0]:
            # A reconcile that does something after it was cancelled (a last status) has had its time, too.
            for controller in self._controllers:
                controller.cancel()

    @contextlib.asynccontextmanager
    async def _probes(self) -> AsyncIterator[None]:
        """Health and metrics over HTTP, if wanted."""
        if self.settings.http_port is None:
            yield
            return
        async with serving(self, self.settings.http_host, self.settings.http_port) as address:
            self.http_address = address
            log.info("Serving health and metrics", address=f"{address[0]}:{address[1]}")
            yield


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error itself, however deep in task groups it was raised."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def run_until_signalled(manager: Manager) -> None:
    """Run the manager until SIGTERM or SIGINT; the second signal does not wait for anything."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.current_task()
    assert task is not None

    def signalled() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        await manager.run(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
