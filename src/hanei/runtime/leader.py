"""Leader election by a Lease, so that of several processes one works (coordination.k8s.io/v1).

Used by the manager; the operator asks `is_leader` before it writes. The rules are client-go's: a candidate takes over
when it has watched the Lease stand still for as long as the Lease says, measured on its own monotonic clock, so clocks
of different machines are never compared. The holder counts from before its renewal was sent and stops earlier than
others may start. It never works on after a renewal that it is not sure of.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Protocol

import msgspec

from hanei import kinds
from hanei.errors import ApiError, ConfigError, LeaderLost
from hanei.kube.errors import Conflict, NotFound
from hanei.observe.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hanei.kinds import Kind
    from hanei.settings import OperatorSettings

log = get_logger(__name__)

_JITTER = 0.2
"""Candidates spread their attempts by so much, or all would try at the same moment."""

_FAILURES = (ApiError, ConfigError)
"""What may pass by itself: also a certificate file that is being written just now."""


class LeaseClient(Protocol):
    """What of the client is needed here."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes: ...
    async def create(self, kind: Kind, namespace: str | None, body: Mapping[str, Any]) -> bytes: ...
    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes: ...


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class _Meta(msgspec.Struct):
    name: str
    namespace: str
    resourceVersion: str = ""  # noqa: N815 (the API's own word)


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Lease).decode


def identity() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where the Lease is, and who we are in it."""

    namespace: str
    name: str
    identity: str = field(default_factory=identity)


class Leader:
    """One candidate for one Lease."""

    def __init__(self, client: LeaseClient, lease: LeaseName, settings: OperatorSettings) -> None:
        self._client = client
        self._lease = lease
        self._settings = settings
        self._random = Random()  # noqa: S311 (jitter)
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        self._sure_until = -math.inf

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can be leading now. True only between a renewal and its deadline."""
        return asyncio.get_running_loop().time() < self._sure_until

    @property
    def holder(self) -> str:
        """Whom the Lease named when it was last read, "" if nobody."""
        return self._seen.spec.holder_identity if self._seen else ""

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        said = ""
        while True:
            try:
                async with asyncio.timeout(self._settings.renew_deadline):
                    if await self._attempt():
                        break
                words = f"held by {self.holder}"
            except TimeoutError:
                words = "no answer in time"
            except _FAILURES as error:
                words = str(error)
            if words != said:
                log.info("Waiting for the Lease", lease=self._lease.name, because=words)
                said = words
            await asyncio.sleep(self._settings.retry_period * self._random.uniform(1.0, 1.0 + _JITTER))
        log.info("Leading", lease=self._lease.name, identity=self._lease.identity)

    async def hold(self) -> None:
        """Renew the Lease for ever. Raises LeaderLost, at the latest when its deadline has passed."""
        try:
            while True:
                async with asyncio.timeout_at(self._sure_until):
                    await asyncio.sleep(self._settings.retry_period)
                    await self._renew()
        except TimeoutError:
            raise LeaderLost(f"The Lease {self._lease.name} could not be renewed in time") from None
        finally:
            self._sure_until = -math.inf

    async def release(self) -> None:
        """Give the Lease back, so that another may start at once; silently do without if that fails."""
        self._sure_until = -math.inf
        if self._seen is not None and self.holder != self._lease.identity:
            return
        try:
            async with asyncio.timeout(self._settings.release_timeout):
                while not await self._given_back():
                    self._seen = None  # a renewal that was cut short was carried out all the same: read, and once more
        except (*_FAILURES, TimeoutError) as error:
            log.info("The Lease could not be given back", lease=self._lease.name, error=str(error))

    async def _given_back(self) -> bool:
        """One attempt; False if the Lease is not as it was last seen."""
        if self._seen is None:
            self._seen = _decode(await self._client.get(kinds.LEASE, self._lease.namespace, self._lease.name))
        lease = self._seen
        if lease.spec.holder_identity == self._lease.identity:
            # client-go's way: nobody holds it, and it runs out within a second.
            spec = _Spec("", 1, lease.spec.acquire_time, _now(), lease.spec.lease_transitions)
            try:
                await self._write(lease, spec)
            except Conflict:
                return False
        return True

    async def _renew(self) -> None:
        """Renew once, trying until it works. Raises LeaderLost when the Lease names somebody else."""
        said = ""
        while True:
            try:
                if await self._attempt(known=True):
                    return
                raise LeaderLost(f"The Lease {self._lease.name} is held by {self.holder}")
            except _FAILURES as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("Renewing the Lease failed", lease=self._lease.name, error=said)
                # Whether it was carried out is unknown: read before writing again.
                self._seen = None
                await asyncio.sleep(self._settings.retry_period * self._random.uniform(0.25, 0.5))

    async def _attempt(self, *, known: bool = False) -> bool:
        """Take or renew the Lease once; whether it is ours now. `known`: what was last seen is still our own write."""
        started = asyncio.get_running_loop().time()
        if not (known and self._seen is not None):
            try:
                self._observe(_decode(await self._client.get(kinds.LEASE, self._lease.namespace, self._lease.name)))
            except NotFound:
                self._took(await self._client.create(kinds.LEASE, self._lease.namespace, self._first()), started)
                return True
        lease = self._seen
        assert lease is not None
        if self._held_by_other(lease):
            return False
        self._took(await self._write(lease, self._next(lease.spec)), started)
        return True

    def _observe(self, lease: _Lease) -> None:
        """Remember a Lease, and since when it has stood still."""
        if self._seen is None or self._seen.metadata.resourceVersion != lease.metadata.resourceVersion:
            self._seen_at = asyncio.get_running_loop().time()
        self._seen = lease

    def _held_by_other(self, lease: _Lease) -> bool:
        if lease.spec.holder_identity in ("", self._lease.identity):
            return False
        return asyncio.get_running_loop().time() < self._seen_at + lease.spec.lease_duration_seconds

    def _took(self, answer: bytes, started: float) -> None:
        """Our write succeeded: sure from before it was sent."""
        self._observe(_decode(answer))
        self._sure_until = started + self._settings.renew_deadline

    async def _write(self, lease: _Lease, spec: _Spec) -> bytes:
        return await self._client.replace(
            kinds.LEASE, self._lease.namespace, self._lease.name, self._body(spec, lease.metadata.resourceVersion)
        )

    def _first(self) -> dict[str, Any]:
        return self._body(_Spec(self._lease.identity, self._duration, _now(), _now(), 0))

    def _next(self, spec: _Spec) -> _Spec:
        """Our Lease from now on; a change of holder is a transition."""
        if spec.holder_identity == self._lease.identity:
            return _Spec(self._lease.identity, self._duration, spec.acquire_time, _now(), spec.lease_transitions)
        return _Spec(self._lease.identity, self._duration, _now(), _now(), spec.lease_transitions + 1)

    @property
    def _duration(self) -> int:
        return math.ceil(self._settings.lease_duration)

    def _body(self, spec: _Spec, resource_version: str = "") -> dict[str, Any]:
        metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        return {
            "apiVersion": kinds.LEASE.api_version,
            "kind": kinds.LEASE.kind,
            "metadata": metadata,
            "spec": msgspec.to_builtins(spec),
        }


def _now() -> str:
    """For people who read the Lease; nobody computes with it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
