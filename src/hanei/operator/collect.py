"""Collects slices, live ConfigMaps and records that nobody needs any more. Runs beside the reconcile, now and then.

Kept are those of workload templates, ReplicaSets, ControllerRevisions, pods (terminating ones too) and records, and any
younger than ten minutes (situations S57, S58). Before anything is deleted one live list confirms what the caches say.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hanei import kinds
from hanei.errors import ApiError, LeaderLost
from hanei.kube.errors import Conflict, NotFound
from hanei.observe.logs import get_logger
from hanei.operator import project
from hanei.render import labels
from hanei.render.model import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hanei.kinds import Kind
    from hanei.kube.client import Client
    from hanei.operator.gather import Caches
    from hanei.runtime.store import Cached
    from hanei.settings import OperatorSettings

log = get_logger(__name__)

CARRIERS = frozenset((Role.SLICE.value, Role.LIVE.value))
_HOLDERS = (kinds.REPLICA_SET, kinds.CONTROLLER_REVISION, kinds.POD)


class _Holder(msgspec.Struct):
    """What of a live object says which slices it needs."""

    metadata: dict[str, Any]
    data: dict[str, Any] | None = None


class Collector:
    """Collects for one app."""

    def __init__(self, client: Client, caches: Caches, leading: Callable[[], bool], settings: OperatorSettings) -> None:
        self._client = client
        self._caches = caches
        self._leading = leading
        self._settings = settings

    async def run(self) -> None:
        """Collect every `collect_interval` seconds, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.collect_interval)
            try:
                await self.once()
            except ApiError as error:
                log.warning("Collecting failed, trying again later", error=str(error))

    async def once(self) -> int:
        """One round; returns how many objects were deleted."""
        deleted = 0
        for item in self._old_records():
            deleted += await self._delete(kinds.CONTROLLER_REVISION, item)
        candidates = [item for item in self._carriers() if not marks_of(item) & self._cached_marks(item.meta.namespace)]
        for namespace in sorted({item.meta.namespace for item in candidates}):
            needed = await self._live_marks(namespace)
            for item in candidates:
                if item.meta.namespace == namespace and not marks_of(item) & needed:
                    deleted += await self._delete(kinds.CONFIG_MAP, item)
        return deleted

    def _carriers(self) -> Iterator[Cached]:
        if kinds.CONFIG_MAP not in self._caches.children:
            return
        now = datetime.now(UTC)
        for item in self._caches.view(kinds.CONFIG_MAP).all():
            if (
                item.meta.labels.get(labels.ROLE) in CARRIERS
                and _age(item, now) >= self._settings.slice_age
                and item.meta.deletionTimestamp is None
            ):
                yield item

    def _old_records(self) -> Iterator[Cached]:
        """Records beyond the app's history, oldest first, per resource."""
        if kinds.CONTROLLER_REVISION not in self._caches.children:
            return
        by_owner: dict[str, list[Cached]] = {}
        for item in self._caches.view(kinds.CONTROLLER_REVISION).all():
            owner = item.meta.controller
            if project.is_record(item) and owner is not None:
                by_owner.setdefault(owner.uid, []).append(item)
        for items in by_owner.values():
            items.sort(key=lambda item: (project.record(item).revision, item.meta.name))
            yield from items[: -self._caches.app.history]

    def _cached_marks(self, namespace: str) -> frozenset[str]:
        found: set[str] = set()
        for kind in kinds.WORKLOADS & self._caches.children.keys():
            for item in self._caches.view(kind).all():
                if item.meta.namespace == namespace:
                    found |= marks_of(item)
        for item in self._caches.pods.all():
            if item.meta.namespace == namespace:
                found |= marks_of(item)
        return frozenset(found)

    async def _live_marks(self, namespace: str) -> frozenset[str]:
        """What is needed by anything that lives in a namespace: one live list per kind of holder."""
        found: set[str] = set(self._cached_marks(namespace))
        selector = f"{labels.APP}={labels.app_label(self._caches.app.kind)}"
        for kind in _HOLDERS:
            async for page in self._client.list_pages(kind, namespace, labels=selector):
                for raw in page.items:
                    found |= _marks(msgspec.json.decode(raw, type=_Holder))
        return frozenset(found)

    async def _delete(self, kind: Kind, item: Cached) -> int:
        if not self._leading():
            raise LeaderLost("the Lease is no longer ours: not collecting")
        try:
            await self._client.delete(kind, item.meta.namespace, item.meta.name, uid=item.meta.uid)
        except (NotFound, Conflict):
            return 0
        self._caches.deleted(kind, item.key, item.meta.uid)
        log.info("Collected", kind=kind.kind, name=item.meta.name, namespace=item.meta.namespace)
        return 1


def marks_of(item: Cached) -> set[str]:
    """The slice and hash labels that an object carries or, being a workload, gives its pods."""
    found = set(_labels(item.meta.labels))
    if item.kind in kinds.WORKLOADS:
        template = msgspec.json.decode(item.raw).get("spec", {}).get("template", {}).get("metadata", {})
        found |= set(_labels(template.get("labels") or {}))
    return found


def _marks(holder: _Holder) -> set[str]:
    found = set(_labels(holder.metadata.get("labels") or {}))
    for template in ((holder.data or {}).get("templates") or {}).values():
        found |= set(_labels(template.get("metadata", {}).get("labels") or {}))
    return found


def _labels(found: dict[str, str]) -> Iterable[str]:
    return (f"{key}={found[key]}" for key in (labels.SLICE, labels.HASH) if key in found)


def _age(item: Cached, now: datetime) -> float:
    created = item.meta.creationTimestamp
    return (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0
