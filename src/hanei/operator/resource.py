"""One resource of an app, decoded from the cache for the length of a reconcile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from hanei.crd.normalise import normalise
from hanei.kinds import Kind
from hanei.kube.errors import NotFound
from hanei.render.render import own_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.app.application import App
    from hanei.app.own import Own
    from hanei.crd.schema import Schema
    from hanei.kube.client import Client
    from hanei.runtime.store import Cached


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: who it is, what it asks for (normalised as the server does), and its status as stored."""

    own: Own
    generation: int
    resource_version: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    managed_fields: tuple[Mapping[str, Any], ...] = ()

    @property
    def suspended(self) -> bool:
        """Whether Hanei must leave everything as it is."""
        return self.spec.get("suspend") is True


async def lives(client: Client, own: Own) -> bool:
    """Whether the resource is still there, by a live read: before what went with it is made again, or an object is
    taken over for it. The cache may not show its end yet."""
    kind = Kind(own.group, own.version, own.kind, own.plural)
    try:
        metadata = orjson.loads(await client.get(kind, own.namespace, own.name))["metadata"]
    except NotFound:
        return False
    return metadata["uid"] == own.uid and "deletionTimestamp" not in metadata


def resource_of(app: App[Any], schema: Schema, item: Cached) -> Resource:
    """The resource in a cached object. Whatever is wrong with its spec is for validation to say."""
    try:
        found: dict[str, Any] = msgspec.json.decode(item.raw)
    except msgspec.MsgspecError:
        found = {}
    spec = found.get("spec")
    meta = item.meta
    fields = tuple(
        {"manager": one.manager, "time": one.time, "subresource": one.subresource, "fieldsV1": orjson.loads(bytes(one.fieldsV1) or b"{}")}
        for one in meta.managedFields
    )  # fmt: skip
    return Resource(
        own_of(app, meta.name, meta.namespace, meta.uid), meta.generation, meta.resourceVersion,
        normalise(schema, spec) if isinstance(spec, dict) else {}, found.get("status") or {}, fields,
    )  # fmt: skip
