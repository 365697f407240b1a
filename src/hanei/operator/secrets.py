"""Secrets that components refer to: watched one by one, and only digests of their values are kept.

A digest is an HMAC with a key of this installation, so that nothing secret can be read from, or tried against, a hash
(SEC14). The key is a Secret in the operator's namespace, made once and never overwritten. A Secret that is missing or
may not be read is *unknown*: nothing is decided from it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from typing import TYPE_CHECKING

import msgspec
import orjson

from hanei import kinds
from hanei.kube.errors import AlreadyExists, Forbidden
from hanei.observe.logs import get_logger
from hanei.render.model import SecretsView
from hanei.runtime.store import Cached, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hanei.kube.client import Client
    from hanei.plan.observed import ObservedObject
    from hanei.runtime.informer import Informer
    from hanei.runtime.informers import Informers
    from hanei.runtime.store import Event, Key

log = get_logger(__name__)

KEY_SECRET = "hanei-stamp-key"  # noqa: S105 - the name of a Secret, not its value
PATIENCE = 3.0
"""Seconds that a reconcile waits for the first answer about a Secret before it calls it unreadable."""


class _Secret(msgspec.Struct):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Secret).decode


class StampKeys:
    """The HMAC keys of this installation, by id. Filled from the key Secret; made there once if it is missing."""

    def __init__(self, client: Client, informers: Informers, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._informer = informers.get(kinds.SECRET, namespace, fields=f"metadata.name={KEY_SECRET}")

    async def load(self) -> dict[str, bytes]:
        """All keys, the newest first. Makes the Secret where there is none; raises if it may not be read or made."""
        cached = self._informer.store.get(self._namespace, KEY_SECRET)
        if cached is None:
            key = os.urandom(32)
            name = f"k{hashlib.sha256(key).hexdigest()[:8]}"
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": KEY_SECRET,
                    "namespace": self._namespace,
                    "labels": {"app.kubernetes.io/managed-by": "hanei"},
                },
                "data": {name: base64.b64encode(key).decode()},
            }
            try:
                raw = await self._client.create(kinds.SECRET, self._namespace, body)
                log.info("Made the key of secret stamps", name=KEY_SECRET, namespace=self._namespace)
            except AlreadyExists:
                raw = await self._client.get(kinds.SECRET, self._namespace, KEY_SECRET)
        else:
            raw = cached.raw
        return _keys(raw)


def _keys(raw: bytes) -> dict[str, bytes]:
    found = orjson.loads(raw)
    data = {name: base64.b64decode(value) for name, value in (found.get("data") or {}).items() if name.startswith("k")}
    newest = (found["metadata"].get("annotations") or {}).get("hanei.dev/newest", "")
    return dict(sorted(data.items(), key=lambda item: (item[0] != newest, item[0])))


class SecretWatch:
    """Informers of single Secrets, shared by the resources that name them; `changed` is told of each change."""

    def __init__(self, informers: Informers, keys: StampKeys, changed: Callable[[Key], None]) -> None:
        self._informers = informers
        self._stamp_keys = keys
        self._changed = changed
        self._keys: dict[str, bytes] = {}
        self._watched: dict[Key, Informer] = {}
        self._ends: dict[Key, Callable[[], None]] = {}
        self._users: dict[Key, set[Key]] = {}
        self._wants: dict[Key, frozenset[Key]] = {}

    def wanted(self, resource: Key) -> frozenset[str]:
        """The names of the Secrets that are watched for a resource."""
        return frozenset(name for _, name in self._wants.get(resource, frozenset()))

    async def ensure(self, resource: Key, names: Iterable[str]) -> None:
        """Watch exactly these Secrets for this resource, and wait a moment for the first answer about each."""
        wanted = frozenset((resource[0], name) for name in names)
        if wanted and not self._keys:
            self._keys = await self._stamp_keys.load()
        before = self._wants.get(resource, frozenset())
        for secret in wanted - before:
            self._users.setdefault(secret, set()).add(resource)
            if secret not in self._watched:
                self._start(secret)
        for secret in before - wanted:
            self._drop(secret, resource)
        if wanted:
            self._wants[resource] = wanted
        else:
            self._wants.pop(resource, None)
        for secret in wanted:
            await self._answered(self._watched[secret])

    def forget(self, resource: Key) -> None:
        """The resource is gone: what only it named is watched no more."""
        for secret in self._wants.pop(resource, frozenset()):
            self._drop(secret, resource)

    def view(self, namespace: str, names: Iterable[str], workloads: Mapping[str, ObservedObject]) -> SecretsView:
        """What rendering may know. `workloads` are the resource's, by component."""
        digests: dict[tuple[str, str], Mapping[str, str]] = {}
        unknown = set()
        for name in names:
            informer = self._watched.get((namespace, name))
            if informer is None or not informer.synced.is_set():
                unknown.add(name)
                continue
            cached = informer.store.get(namespace, name)
            if cached is None:
                unknown.add(name)  # deleted, perhaps to be made again with the same content (situation S03)
                continue
            found: dict[str, dict[str, str]] = orjson.loads(cached.raw)
            digests |= {(name, key): by_id for key, by_id in found.items()}
        stamps = {component: item.stamp for component, item in workloads.items() if item.stamp}
        hashes = {component: item.template_hash for component, item in workloads.items()}
        return SecretsView(digests, next(iter(self._keys), ""), stamps, hashes, frozenset(unknown))

    def missing(self, namespace: str, names: Iterable[str]) -> frozenset[str]:
        """Those of these Secrets that are known not to exist."""
        watched = ((name, self._watched.get((namespace, name))) for name in names)
        return frozenset(
            name
            for name, informer in watched
            if informer and informer.synced.is_set() and not informer.store.get(namespace, name)
        )

    def _start(self, secret: Key) -> None:
        namespace, name = secret
        informer = self._informers.acquire(
            kinds.SECRET, namespace, fields=f"metadata.name={name}", transform=self._digested
        )
        self._watched[secret] = informer
        self._ends[secret] = informer.subscribe(lambda event: self._tell(secret, event))

    def _drop(self, secret: Key, resource: Key) -> None:
        users = self._users.get(secret, set())
        users.discard(resource)
        if not users:
            self._users.pop(secret, None)
            self._ends.pop(secret)()
            self._informers.release(self._watched.pop(secret))

    def _tell(self, secret: Key, event: Event) -> None:
        if event.old is not None and event.new is not None and event.old.raw == event.new.raw:
            return  # labels or annotations only: nothing that a pod could see (situation S21)
        for resource in self._users.get(secret, ()):
            self._changed(resource)

    def _digested(self, raw: bytes) -> Cached:
        """Keep of a Secret: its name, and per key and HMAC key one digest."""
        found = _decode(raw)
        digests = {
            key: {
                key_id: hmac.new(secret, _value(value), hashlib.sha256).hexdigest()[:32]
                for key_id, secret in self._keys.items()
            }
            for key, value in (found.data or {}).items()
        }
        meta = ObjectMeta(
            name=found.metadata.name,
            namespace=found.metadata.namespace,
            uid=found.metadata.uid,
            resourceVersion=found.metadata.resourceVersion,
        )
        return Cached(kinds.SECRET, meta, orjson.dumps(digests, option=orjson.OPT_SORT_KEYS))

    async def _answered(self, informer: Informer) -> None:
        """Wait for the first list, but no longer than a moment: a Secret that may not be read never answers."""
        if informer.synced.is_set() or isinstance(informer.error, Forbidden):
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await informer.synced.wait()
        except TimeoutError:
            log.info(
                "A Secret cannot be read yet",
                selection=str(informer.selection),
                error=str(informer.error or "no answer"),
            )


def _value(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return text.encode()
