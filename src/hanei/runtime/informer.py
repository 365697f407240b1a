"""A local copy of some objects of the API server, kept up to date by list and watch.

Started by `hanei.runtime.informers`, which shares one per selection. It fills a `Store` and tells its subscribers what
changed. It never gives up: whatever fails is tried again with a growing wait, and every mistake in between (events
lost, repeated, out of order) ends with the next list, which replaces everything at once. A list that breaks off
changes nothing. It never writes to the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import msgspec

from hanei.errors import HaneiError
from hanei.kube.errors import BadRequest, Forbidden, Gone, Invalid, KubeError, NotFound, ServerError
from hanei.observe.logs import get_logger
from hanei.runtime.backoff import Backoff
from hanei.runtime.keep import keep_all
from hanei.runtime.store import Cached, Event, ObjectMeta, Store, revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hanei.kinds import Kind
    from hanei.kube.client import Client, WatchEvent
    from hanei.runtime.keep import Transform

__all__ = ["Event", "Informer", "Selection"]

log = get_logger(__name__)

_SHORT = 1.0
"""A watch that the server ends sooner than this counts as a failure, or a sick server would be asked without a pause."""

_STUBBORN = 3
"""Server errors in a row after which the position itself is suspected and everything is listed anew."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects: a kind, in one namespace or all (None), by label and field selectors."""

    kind: Kind
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        selectors = ", ".join(filter(None, (self.labels, self.fields)))
        return self.kind.describe(self.namespace) + (f" ({selectors})" if selectors else "")


class _Object(msgspec.Struct):
    metadata: ObjectMeta


_decode = msgspec.json.Decoder(_Object).decode


class Informer:
    """One selection, listed and watched. `store` may be read once `synced` is set.

    `epoch` counts the lists, `last_contact` is the loop's time of the last answer (infinite
    before the start), `error` the last failure or None.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        *,
        transform: Transform | None = None,
        indexes: Mapping[str, Callable[[Cached], Iterable[str]]] | None = None,
    ) -> None:
        self.selection = selection
        self.store = Store(indexes)
        self.synced = asyncio.Event()
        self.epoch = 0
        self.error: HaneiError | None = None
        self.last_contact = math.inf
        self._client = client
        self._settings = client.settings
        self._whole = keep_all(selection.kind)
        self._transform = transform or self._whole
        self._subscribers: list[Callable[[Event], None]] = []
        self._random = Random()  # noqa: S311 (jitter)
        self._position: str | None = None
        self._listed_at = 0.0
        self._doubted = False

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call `callback` with every change from now on; returns how to end that. It must not block."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def run(self) -> None:
        """List and watch until cancelled."""
        loop = asyncio.get_running_loop()
        self.last_contact = loop.time()
        backoff = Backoff(self._settings.backoff_base, self._settings.watch_backoff, self._random)
        while True:
            started = loop.time()
            wanted: float | None = None
            try:
                await self._step()
            except HaneiError as error:
                self._failed(error, backoff.failures)
                wanted = error.retry_after if isinstance(error, KubeError) else None
                lived = loop.time() - started > self._settings.watch_backoff
            except Exception:
                log.exception("Watching failed unexpectedly, listing anew", selection=str(self.selection))
                self._position, lived = None, False
            else:
                lived = loop.time() - started > _SHORT
                if lived:
                    backoff.reset()
                    continue
            if lived:
                backoff.reset()
            await asyncio.sleep(backoff.next(wanted))

    async def _step(self) -> None:
        """List if the position is unknown, then watch until the server ends it."""
        if self._position is not None and self._doubted:
            await self._check_position()
        if self._position is None:
            await self._relist()
        self._doubted = False
        await self._follow()
        if asyncio.get_running_loop().time() - self._listed_at > self._settings.relist:
            self._position = None

    async def _relist(self) -> None:
        """Read everything aside, then take it over at once."""
        try:
            items, version = await self._read(self._settings.list_page)
        except Gone:
            # The pages outlived the server's history: one answer holds a snapshot however long it takes.
            items, version = await self._read(0)
        self._position = version
        self._listed_at = asyncio.get_running_loop().time()
        self.epoch += 1
        self._tell(self.store.replace(items, revision(version)))
        self.synced.set()

    async def _read(self, limit: int) -> tuple[list[Cached], str]:
        chosen, items, version = self.selection, list[Cached](), ""
        pages = self._client.list_pages(
            chosen.kind, chosen.namespace, labels=chosen.labels, fields=chosen.fields, limit=limit
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                items += map(self._kept, page.items)
                version = page.resource_version
                self._contact()
        return items, version

    async def _check_position(self) -> None:
        """After a broken connection: a server whose numbers are behind ours was restored, and would stay silent."""
        chosen = self.selection
        pages = self._client.list_pages(
            chosen.kind, chosen.namespace, labels=chosen.labels, fields=chosen.fields, limit=1
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                self._contact()
                if revision(page.resource_version) < revision(self._position or ""):
                    log.warning("The server was restored, listing anew", selection=str(chosen))
                    self._position = None
                return

    async def _follow(self) -> None:
        chosen = self.selection
        events = self._client.watch(
            chosen.kind,
            chosen.namespace,
            resource_version=self._position or "",
            labels=chosen.labels,
            fields=chosen.fields,
            timeout=self._settings.watch_timeout * self._random.uniform(1.0, 1.5),
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._contact()
                self._take(event)
        self._contact()

    def _take(self, event: WatchEvent) -> None:
        """One event of the watch. Versions only ever grow in it; one that does not means that we lost our place."""
        if event.type == "BOOKMARK":
            self._advance(_decode(event.object).metadata.resourceVersion)
            return
        item = self._kept(event.object)
        if not self._advance(item.meta.resourceVersion):
            return
        if event.type == "DELETED":
            self._tell(self.store.remove(item.key, item.meta.uid))
        else:
            self._tell(self.store.upsert(item))

    def _advance(self, version: str) -> bool:
        """Whether this version is new. Raises Gone when it is older than what was seen already."""
        known, now = revision(self._position or ""), revision(version)
        if now and now < known:
            raise Gone(f"watch {self.selection}: resourceVersion {version} came after {known}")
        self._position = version
        self.store.advance(now)
        return now == 0 or now > known

    def _kept(self, raw: bytes) -> Cached:
        try:
            return self._transform(raw)
        except Exception:
            # One odd object must not keep us from all the others; whoever reads it finds it whole.
            log.exception("An object could not be shortened", selection=str(self.selection))
            return self._whole(raw)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            for callback in tuple(self._subscribers):
                try:
                    callback(event)
                except Exception:
                    log.exception("A subscriber failed", selection=str(self.selection), object=event.item.key)

    def _contact(self) -> None:
        self.last_contact = asyncio.get_running_loop().time()
        self.error = None

    def _failed(self, error: HaneiError, failures: int) -> None:
        if _position_lost(error, failures):
            self._position = None
        if isinstance(error, Forbidden | NotFound):
            # The server answers, so we are not deaf: it is for people to give us the right or the kind.
            self.last_contact = asyncio.get_running_loop().time()
        self._doubted = True
        if str(self.error) != str(error):
            log.warning("Watching failed, trying again", selection=str(self.selection), error=str(error))
        self.error = error
        self._client.metrics.watch_restarts.labels(self.selection.kind.kind).inc()


def _position_lost(error: HaneiError, failures: int) -> bool:
    """Whether resuming the watch where it was cannot work."""
    if isinstance(error, Gone | BadRequest | Invalid | NotFound):
        return True
    if isinstance(error, ServerError) and failures + 1 >= _STUBBORN:
        return True
    return "Too large resource version" in str(error)
