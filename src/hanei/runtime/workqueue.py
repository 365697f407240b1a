"""Keys that wait to be worked on: each at most once, one run per key at a time, fair.

Between informers, which add, and a controller's workers, which take. Delays run on the loop's clock, so tests may fake
it. It knows nothing of what a key means and never drops one before `shutdown`.
"""

from __future__ import annotations

import asyncio
import heapq
from random import Random
from typing import Generic, TypeVar

from hanei.runtime import backoff

K = TypeVar("K")


class QueueShutDown(Exception):
    """No more keys will come."""


class WorkQueue(Generic[K]):
    """A de-duplicating, delaying queue. Must be used inside one running loop.

    A run covers every reason to run up to its start: taking a key drops its earlier delays. A key added while it runs
    runs once more afterwards, at the end of the line, so no key starves another.
    """

    def __init__(self, *, base: float = 0.2, cap: float = 60.0, random: Random | None = None) -> None:
        self._base = base
        self._cap = cap
        self._random = random or Random()  # noqa: S311 (jitter)
        self._ready: dict[K, None] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now; delayed ones do not count."""
        return len(self._ready) + len(self._again)

    def add(self, key: K) -> None:
        """Work on this key as soon as a worker is free."""
        if self._closed:
            return
        if key in self._running:
            self._again.add(key)
        elif key not in self._ready:
            self._ready[key] = None
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on this key after so many seconds; of several delays of one key the earliest counts."""
        if self._closed:
            return
        when = asyncio.get_running_loop().time() + seconds
        if seconds <= 0:
            self.add(key)
        elif when < self._due.get(key, float("inf")):
            self._due[key] = when
            self._count += 1
            heapq.heappush(self._heap, (when, self._count, key))
            self._arm()

    def add_backoff(self, key: K, at_least: float | None = None) -> float:
        """Work on this key after a wait that grows with its failures in a row; returns the wait in seconds."""
        self._failures[key] = self._failures.get(key, 0) + 1
        grown = backoff.delay(self._failures[key], base=self._base, cap=self._cap, random=self._random)
        wait = max(grown, at_least or 0.0)
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """The key's failures are over: its next wait starts small again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row this key failed."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The key that waits longest; call `done` after the work. Raises QueueShutDown."""
        while not self._closed:
            if self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._running.add(key)
                self._due.pop(key, None)
                return key
            self._wake.clear()
            await self._wake.wait()
        raise QueueShutDown

    def done(self, key: K) -> None:
        """The work on this key ended, however it ended."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def shutdown(self) -> None:
        """Give out no more keys and take no more; those being worked on may finish."""
        self._closed = True
        self._ready.clear()
        self._again.clear()
        self._due.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._wake.set()

    def _arm(self) -> None:
        """One timer for the earliest delay."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)
        self._arm()
