"""What an informer knows: objects by name, with indexes, and how it changed.

Filled by one `hanei.runtime.informer`, read by reconciles, usually through `hanei.runtime.overlay`. Everything here is
synchronous and immediate; it never talks to the API server and never waits. What of an object is kept is decided by
`hanei.runtime.keep`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from hanei.kinds import Kind
from hanei.observe.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = get_logger(__name__)

Key = tuple[str, str]
"""Namespace ("" for kinds without) and name."""


class OwnerRef(msgspec.Struct, gc=False):
    """Who owns the object; `controller` marks the one that manages it."""

    apiVersion: str  # noqa: N815 (the API's own word)
    kind: str
    name: str
    uid: str
    controller: bool = False


class ManagedFields(msgspec.Struct, gc=False):
    """Which fields one manager set (KEP-555). `fieldsV1` is raw JSON with keys ``f:``, ``k:{…}``, ``v:``."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    fieldsV1: msgspec.Raw = msgspec.Raw(b"{}")  # noqa: N815 (the API's own word)


class ObjectMeta(msgspec.Struct, gc=False):
    """`metadata` under the API's own names; times are RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[OwnerRef] = []  # noqa: N815
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    finalizers: list[str] = []
    managedFields: list[ManagedFields] = []  # noqa: N815

    @property
    def controller(self) -> OwnerRef | None:
        """The owner that manages the object, if one does."""
        return next((owner for owner in self.ownerReferences if owner.controller), None)


class Cached(msgspec.Struct, frozen=True, gc=False):
    """One object as kept: metadata decoded, `raw` the JSON of what else was kept."""

    kind: Kind
    meta: ObjectMeta
    raw: bytes

    @property
    def key(self) -> Key:
        return self.meta.namespace, self.meta.name


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of a store: `old` is None when added, `new` is None when deleted."""

    type: Literal["added", "modified", "deleted"]
    old: Cached | None
    new: Cached | None

    @property
    def item(self) -> Cached:
        """The object meant, newest state known."""
        found = self.new or self.old
        assert found is not None
        return found


class View(Protocol):
    """Reading a store; an overlay reads the same way."""

    def get(self, namespace: str, name: str) -> Cached | None: ...
    def by_index(self, index: str, value: str) -> tuple[Cached, ...]: ...
    def all(self) -> tuple[Cached, ...]: ...
    def __len__(self) -> int: ...


def revision(text: str) -> int:
    """A resourceVersion as a number; comparable within one epoch of one kind (KEP-5504). 0 if it is none."""
    return int(text) if text.isdecimal() else 0


class Store:
    """Objects of one informer. `resource_version` is the newest one that the informer has seen of anything."""

    def __init__(self, indexes: Mapping[str, Callable[[Cached], Iterable[str]]] | None = None) -> None:
        self.indexes: dict[str, Callable[[Cached], Iterable[str]]] = {}
        self.resource_version = 0
        self.restores = 0
        """How often the resourceVersion ran backwards: the server was restored, older numbers mean nothing now."""
        self._items: dict[Key, Cached] = {}
        self._tables: dict[str, dict[str, dict[Key, Cached]]] = {}
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    def add_index(self, name: str, function: Callable[[Cached], Iterable[str]]) -> None:
        """Another way to find objects; one that exists stays as it is."""
        if name in self.indexes:
            return
        self.indexes[name] = function
        self._tables[name] = {}
        for item in self._items.values():
            self._file(name, item)

    def get(self, namespace: str, name: str) -> Cached | None:
        return self._items.get((namespace, name))

    def by_index(self, index: str, value: str) -> tuple[Cached, ...]:
        """All objects filed under this value; KeyError for an index that was never declared."""
        return tuple(self._tables[index].get(value, {}).values())

    def all(self) -> tuple[Cached, ...]:
        return tuple(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def advance(self, resource_version: int) -> None:
        """The informer has seen everything up to here."""
        self.resource_version = max(self.resource_version, resource_version)

    def replace(self, items: Iterable[Cached], resource_version: int = 0) -> list[Event]:
        """Take over a complete list made at this version: what it does not hold is gone."""
        if resource_version < self.resource_version:
            self.restores += 1
        self.resource_version = resource_version
        found = {item.key: item for item in items}
        events = [event for old in self.all() if old.key not in found for event in self._drop(old)]
        for item in found.values():
            old = self._items.get(item.key)
            if old is None or _identity(old) != _identity(item):
                events += self._put(item)
        return events

    def upsert(self, item: Cached) -> list[Event]:
        """Add or change; what is no newer than the object known is passed over."""
        old = self._items.get(item.key)
        if old is not None and old.meta.uid == item.meta.uid:
            seen, now = revision(old.meta.resourceVersion), revision(item.meta.resourceVersion)
            if 0 < now <= seen:
                return []
        return self._put(item)

    def remove(self, key: Key, uid: str) -> list[Event]:
        """Remove this very object; a late event for an earlier one of the same name changes nothing."""
        old = self._items.get(key)
        return self._drop(old) if old is not None and old.meta.uid == uid else []

    def _put(self, item: Cached) -> list[Event]:
        """Store it. Another object of the same name is a deletion and an addition."""
        old = self._items.get(item.key)
        events = self._drop(old) if old is not None and old.meta.uid != item.meta.uid else []
        before = self._items.get(item.key)
        if before is not None:
            self._unfile(before)
        self._items[item.key] = item
        for name in self.indexes:
            self._file(name, item)
        events.append(Event("modified" if before else "added", before, item))
        return events

    def _drop(self, old: Cached) -> list[Event]:
        del self._items[old.key]
        self._unfile(old)
        return [Event("deleted", old, None)]

    def _file(self, name: str, item: Cached) -> None:
        for value in self._values(name, item):
            self._tables[name].setdefault(value, {})[item.key] = item

    def _unfile(self, item: Cached) -> None:
        for name, table in self._tables.items():
            for value in self._values(name, item):
                filed = table.get(value)
                if filed is not None:
                    filed.pop(item.key, None)
                    if not filed:
                        del table[value]

    def _values(self, name: str, item: Cached) -> tuple[str, ...]:
        try:
            return tuple(self.indexes[name](item))
        except Exception:
            # One odd object must not keep an informer from all the others: it is found by name only.
            log.exception("An index function failed", index=name, kind=item.kind.kind, object=item.key)
            return ()


def _identity(item: Cached) -> tuple[str, str]:
    return item.meta.uid, item.meta.resourceVersion
