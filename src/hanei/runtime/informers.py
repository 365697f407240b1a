"""Informers shared per selection, started and stopped while the process runs.

Owned by the manager, which runs it; controllers ask here for what they read. Those from `get` stay for good and are
waited for before anything is reconciled; those from `acquire` (a Secret watched by name) come and go with their users.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hanei.runtime.informer import Informer, Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hanei.kinds import Kind
    from hanei.kube.client import Client
    from hanei.runtime.keep import Transform
    from hanei.runtime.store import Cached

    Indexes = Mapping[str, Callable[[Cached], Iterable[str]]]


class Informers:
    """All informers of one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._shared: dict[Selection, Informer] = {}
        self._users: dict[Selection, int] = {}
        self._required: dict[Selection, Informer] = {}
        self._tasks: dict[Selection, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def get(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str = "",
        fields: str = "",
        *,
        transform: Transform | None = None,
        indexes: Indexes | None = None,
    ) -> Informer:
        """The informer of this selection, needed as long as the process runs.

        The first caller's `transform` holds (default: `keep_all`), indexes add up.
        """
        informer = self._open(Selection(kind, namespace, labels, fields), transform, indexes)
        self._required[informer.selection] = informer
        return informer

    def acquire(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str = "",
        fields: str = "",
        *,
        transform: Transform | None = None,
        indexes: Indexes | None = None,
    ) -> Informer:
        """As `get`, but only until `release` was called as often; it may not be synced yet."""
        informer = self._open(Selection(kind, namespace, labels, fields), transform, indexes)
        self._users[informer.selection] = self._users.get(informer.selection, 0) + 1
        return informer

    def release(self, informer: Informer) -> None:
        """One user less; the last one stops it."""
        selection = informer.selection
        self._users[selection] -= 1
        if self._users[selection] or selection in self._required:
            return
        del self._users[selection], self._shared[selection]
        task = self._tasks.pop(selection, None)
        if task is not None:
            task.cancel()

    async def run(self) -> None:
        """Run all informers, those that are asked for later too, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for informer in self._shared.values():
                    self._start(informer)
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None
                self._tasks.clear()

    def all(self) -> tuple[Informer, ...]:
        return tuple(self._shared.values())

    def unsynced(self) -> tuple[Informer, ...]:
        """Those that must be synced before anything is reconciled and are not."""
        return tuple(item for item in self._required.values() if not item.synced.is_set())

    def deaf(self, after: float) -> tuple[Informer, ...]:
        """Those that had no contact with the API server for `after` seconds."""
        now = asyncio.get_running_loop().time()
        return tuple(item for item in self._shared.values() if now - item.last_contact > after)

    def _open(self, selection: Selection, transform: Transform | None, indexes: Indexes | None) -> Informer:
        informer = self._shared.get(selection)
        if informer is None:
            informer = Informer(self._client, selection, transform=transform, indexes=indexes)
            self._shared[selection] = informer
            self._start(informer)
        for name, function in (indexes or {}).items():
            informer.store.add_index(name, function)
        return informer

    def _start(self, informer: Informer) -> None:
        if self._group is not None:
            self._tasks[informer.selection] = self._group.create_task(informer.run(), name=str(informer.selection))
