"""Own writes laid over a cache that has not seen them yet, so that the next reconcile decides on what is true.

Between `hanei.runtime.store` and the operator's gather step; read like the store itself. A write ends when the informer
has seen anything as new as it (resourceVersions compare within one epoch of a kind: KEP-5504), when the numbers ran
backwards (a restored server), or after `life` seconds, so a mistake here cannot last. A deletion is remembered by uid:
it hides that very object until the cache shows it gone, or shows that it waits for finalizers.
"""

from __future__ import annotations

import heapq
from asyncio import get_running_loop
from collections import deque
from typing import TYPE_CHECKING

from hanei.runtime.store import Cached, Key, Store, revision

if TYPE_CHECKING:
    from hanei.kinds import Kind


class Overlay:
    """A store as it will be once it has caught up with our own writes."""

    def __init__(self, store: Store, life: float = 60.0) -> None:
        self._store = store
        self._life = life
        self._restores = store.restores
        self._written = Store(store.indexes)
        self._by_version: list[tuple[int, Key]] = []
        self._deleted: dict[Key, str] = {}
        self._deadlines: deque[tuple[float, Key, str]] = deque()

    def record_write(self, item: Cached) -> None:
        """We wrote this: `item` is what the server answered."""
        version = revision(item.meta.resourceVersion)
        self._settle()
        if version <= self._store.resource_version:
            return
        self._deleted.pop(item.key, None)
        for name, function in self._store.indexes.items():
            self._written.add_index(name, function)
        self._written.upsert(item)
        heapq.heappush(self._by_version, (version, item.key))
        self._remember(item.key, item.meta.resourceVersion)

    def record_delete(self, kind: Kind, key: Key, uid: str) -> None:
        """We deleted this very object of `kind` (the store's own)."""
        self._settle()
        self._written.remove(key, uid)
        self._deleted[key] = uid
        self._remember(key, uid)

    def deleted_by_us(self, key: Key, uid: str) -> bool:
        """Whether we deleted this very object, within the overlay's life."""
        return self._deleted.get(key) == uid

    def get(self, namespace: str, name: str) -> Cached | None:
        self._settle()
        return self._written.get(namespace, name) or self._shown(self._store.get(namespace, name))

    def by_index(self, index: str, value: str) -> tuple[Cached, ...]:
        below = self._store.by_index(index, value)
        self._settle()
        if not self._written and not self._deleted:
            return below
        over = self._written.by_index(index, value) if index in self._written.indexes else ()
        return self._merged(below, over)

    def all(self) -> tuple[Cached, ...]:
        self._settle()
        return self._merged(self._store.all(), self._written.all())

    def __len__(self) -> int:
        return len(self.all())

    def _merged(self, below: tuple[Cached, ...], over: tuple[Cached, ...]) -> tuple[Cached, ...]:
        kept = (item for item in below if self._written.get(*item.key) is None and self._shown(item) is not None)
        return (*kept, *over)

    def _shown(self, item: Cached | None) -> Cached | None:
        """The cached object, unless we deleted it and the cache does not know yet."""
        if item is None or self._deleted.get(item.key) != item.meta.uid:
            return item
        return item if item.meta.deletionTimestamp else None

    def _remember(self, key: Key, what: str) -> None:
        self._deadlines.append((get_running_loop().time() + self._life, key, what))

    def _settle(self) -> None:
        """Forget what the cache has caught up with, and what is too old to be believed."""
        if self._restores != self._store.restores:
            self._restores = self._store.restores
            self._written, self._by_version = Store(self._store.indexes), []
            self._deleted.clear()
            self._deadlines.clear()
        if not self._deadlines:
            return
        while self._by_version and self._by_version[0][0] <= self._store.resource_version:
            version, key = heapq.heappop(self._by_version)
            self._forget_write(key, str(version))
        now = get_running_loop().time()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, key, what = self._deadlines.popleft()
            self._forget_write(key, what)
            if self._deleted.get(key) == what:
                del self._deleted[key]

    def _forget_write(self, key: Key, version: str) -> None:
        item = self._written.get(*key)
        if item is not None and item.meta.resourceVersion == version:
            self._written.remove(key, item.meta.uid)
