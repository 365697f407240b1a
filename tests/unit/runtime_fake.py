"""An API server in memory for one kind, whose watch can be made to lose, repeat and reorder events.

It stands for faults that a real server cannot be asked for; what Kubernetes itself does is tested in `tests/system`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from hanei import kinds
from hanei.kube.client import Page, WatchEvent
from hanei.kube.errors import AlreadyExists, Conflict, Disconnected, Gone, NotFound
from hanei.observe.metrics import Metrics
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from hanei.errors import HaneiError
    from hanei.kinds import Kind

Key = tuple[str, str]

QUICK = replace(
    OperatorSettings(),
    watch_timeout=20.0,
    watch_silence=25.0,
    watch_backoff=2.0,
    list_page=3,
    resync=1e6,
    http_port=None,
)


@dataclass(frozen=True)
class Logged:
    version: int
    type: str
    raw: bytes


class FakeServer:
    """Objects with resourceVersions, and the log of their changes."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[Key, dict[str, Any]] = {}
        self.log: list[Logged] = []
        self.compacted = 0
        self.failure: HaneiError | None = None
        self.lists = 0
        self.watches = 0
        self._uids = 0
        self._cut = 0
        self._changed = asyncio.Event()

    def put(self, name: str, namespace: str = "ns", **content: Any) -> dict[str, Any]:
        """Create or change."""
        old = self.objects.get((namespace, name))
        self.version += 1
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        meta = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)}
        meta |= content.pop("metadata", {})
        made = {"metadata": meta, **content}
        self.objects[namespace, name] = made
        self._append("MODIFIED" if old else "ADDED", made)
        return made

    def delete(self, name: str, namespace: str = "ns") -> None:
        gone = self.objects.pop((namespace, name))
        self.version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._append("DELETED", gone)

    def bookmark(self) -> None:
        """Time passes for others: only the position moves."""
        self.version += 1
        self._append("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forget all history: who watches from before gets 410."""
        self.compacted = self.version
        self.log.clear()

    def restore(self, version: int) -> None:
        """Be a server from a backup: the numbers run backwards."""
        self.version = version
        self.log.clear()
        self.compacted = 0
        self.cut()

    def cut(self) -> None:
        """Break all open watches."""
        self._cut += 1
        self._ring()

    def state(self) -> dict[Key, tuple[str, str]]:
        """Uid and version of everything, to compare a store with."""
        return {
            key: (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for key, item in self.objects.items()
        }

    async def watch(self, since: int, timeout: float) -> AsyncGenerator[Logged, None]:  # noqa: ASYNC109
        self.watches += 1
        epoch, place = self._cut, since
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while loop.time() < until:
            if self._cut != epoch:
                raise Disconnected("cut")
            if self.failure is not None:
                raise self.failure
            if place < self.compacted:
                raise Gone("too old resource version")
            changed = self._changed
            for entry in [item for item in self.log if item.version > place]:
                place = entry.version
                yield entry
            try:
                async with asyncio.timeout_at(until):
                    await changed.wait()
            except TimeoutError:
                return

    def _append(self, kind: str, item: dict[str, Any]) -> None:
        self.log.append(Logged(self.version, kind, orjson.dumps(item)))
        self._ring()

    def _ring(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def honest(event: Logged) -> list[Logged]:
    return [event]


class FakeClient:
    """What of the client informers and the Lease use. `distort` turns each event of a watch into those delivered."""

    def __init__(
        self, server: FakeServer, settings: OperatorSettings = QUICK, leases: FakeServer | None = None
    ) -> None:
        self.server = server
        self.leases = leases or FakeServer()
        self.settings = settings
        self.metrics = Metrics()
        self.distort: Callable[[Logged], list[Logged]] = honest
        self.on_page: Callable[[int], None] = lambda number: None

    async def list_pages(
        self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "", limit: int = 500
    ) -> AsyncGenerator[Page, None]:
        self.server.lists += 1
        await asyncio.sleep(0.001)
        version, items = self.server.version, [orjson.dumps(item) for item in self.server.objects.values()]
        size = limit or max(1, len(items))
        for number, start in enumerate(range(0, max(1, len(items)), size)):
            if self.server.failure is not None:
                raise self.server.failure
            if number and version < self.server.compacted:
                raise Gone("the continue token is too old")
            yield Page(items[start : start + size], str(version), max(0, len(items) - start - size))
            self.on_page(number)
            await asyncio.sleep(0.001)

    async def watch(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout: float,  # noqa: ASYNC109
    ) -> AsyncGenerator[WatchEvent, None]:
        await asyncio.sleep(0.001)
        async for entry in self.server.watch(int(resource_version), timeout):
            for told in self.distort(entry):
                yield WatchEvent(told.type, told.raw)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes:
        await self._answer()
        found = self.leases.objects.get((namespace or "", name))
        if found is None:
            raise NotFound(f"{name} not found")
        return orjson.dumps(found)

    async def create(self, kind: Kind, namespace: str | None, body: Mapping[str, Any]) -> bytes:
        await self._answer()
        name = body["metadata"]["name"]
        if (namespace or "", name) in self.leases.objects:
            raise AlreadyExists(f"{name} exists")
        return orjson.dumps(self.leases.put(name, namespace or "", spec=body["spec"]))

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        await self._answer()
        found = self.leases.objects.get((namespace or "", name))
        if found is None:
            raise NotFound(f"{name} not found")
        if found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict(f"{name} was changed")
        return orjson.dumps(self.leases.put(name, namespace or "", spec=body["spec"]))

    async def _answer(self) -> None:
        await asyncio.sleep(0.001)
        if self.server.failure is not None:
            raise self.server.failure


KIND = kinds.CONFIG_MAP
