"""Workers that take keys from a queue and reconcile them, one at a time per key.

Run by the manager while this process leads. What a reconcile does is the operator's; here is only what follows from how
it ended: success, a retry, a refusal or a crash. No reconcile can end the process, and none is lost: a key whose work
was cancelled goes back to the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from hanei.errors import HaneiError, LeaderLost, Retryable
from hanei.kube.errors import KubeError
from hanei.observe.logs import get_logger
from hanei.runtime.store import Key
from hanei.runtime.workqueue import QueueShutDown, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from hanei.observe.metrics import Metrics
    from hanei.settings import OperatorSettings

__all__ = ["Controller", "Key", "Result"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconcile ended well; `requeue_after` asks for another one in so many seconds."""

    requeue_after: float | None = None


class Controller:
    """One kind of work. `keys` yields everything that exists, for the resync from the cache."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[Key], Awaitable[Result]],
        queue: WorkQueue[Key],
        workers: int,
        settings: OperatorSettings,
        *,
        keys: Callable[[], Iterable[Key]] = tuple,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._settings = settings
        self._keys = keys
        self._complaints: dict[Key, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, metrics: Metrics) -> None:
        """Work until the queue is shut down and the last reconcile has finished, or until cancelled."""
        metrics.workqueue_depth.labels(self.name).set_function(lambda: len(self.queue))
        async with asyncio.TaskGroup() as group:
            resync = group.create_task(self._resync(), name=f"{self.name} resync")
            async with asyncio.TaskGroup() as workers:
                self._tasks = [
                    workers.create_task(self._work(metrics), name=f"{self.name} worker {number}")
                    for number in range(self._workers)
                ]
            resync.cancel()

    def cancel(self) -> None:
        """Cancel whatever runs, once more if it was cancelled already and is taking its time."""
        for task in self._tasks:
            task.cancel()

    async def _resync(self) -> None:
        """Everything at the start (another leader may have left work) and every now and then."""
        random = Random()  # noqa: S311 (jitter)
        while True:
            for key in self._keys():
                self.queue.add(key)
            await asyncio.sleep(self._settings.resync * random.uniform(0.9, 1.1))

    async def _work(self, metrics: Metrics) -> None:
        with contextlib.suppress(QueueShutDown):
            while True:
                key = await self.queue.get()
                try:
                    await self._once(key, metrics)
                except (asyncio.CancelledError, LeaderLost):
                    self.queue.add(key)
                    raise
                finally:
                    self.queue.done(key)

    async def _once(self, key: Key, metrics: Metrics) -> None:
        """One reconcile and what follows from its end."""
        with metrics.reconcile_seconds.labels(self.name).time():
            try:
                result = await self._reconcile(key)
            except LeaderLost:
                raise
            except HaneiError as error:
                outcome = self._failed(key, error)
            except Exception:
                wait = self.queue.add_backoff(key)
                log.exception("A reconcile crashed", controller=self.name, key=key, retry_in=round(wait, 1))
                outcome = "crashed"
            else:
                outcome = self._succeeded(key, result)
        metrics.reconciles.labels(self.name, outcome).inc()
        if outcome in ("retried", "refused", "crashed"):
            metrics.reconcile_errors.labels(self.name).inc()

    def _succeeded(self, key: Key, result: Result) -> str:
        self.queue.forget(key)
        if self._complaints.pop(key, None):
            log.info("Reconciled after earlier failures", controller=self.name, key=key)
        if result.requeue_after is None:
            return "done"
        self.queue.add_after(key, result.requeue_after)
        return "requeued"

    def _failed(self, key: Key, error: HaneiError) -> str:
        """Try again: soon if that may succeed, late if nothing but a change can mend it. Said once per cause."""
        if isinstance(error, Retryable):
            wait = self.queue.add_backoff(key, error.retry_after if isinstance(error, KubeError) else None)
            outcome = "retried"
        else:
            wait = self._settings.refused_retry
            self.queue.add_after(key, wait)
            outcome = "refused"
        if self._complaints.get(key) != str(error):
            self._complaints[key] = str(error)
            log.warning("A reconcile failed", controller=self.name, key=key, error=str(error), retry_in=round(wait, 1))
        return outcome
