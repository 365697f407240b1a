"""Is the CRD in the cluster the one that this version of the app wants? (situation S69)

An older CRD prunes new settings silently. Read from `/openapi/v3`, which every account may read, so that a namespaced
operator needs no right on CustomResourceDefinitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from hanei.crd.definition import spec_schema
from hanei.kube.errors import NotFound
from hanei.plan.explore import schema_leaves

if TYPE_CHECKING:
    from hanei.app.application import App
    from hanei.crd.schema import Schema
    from hanei.kube.client import Client


async def served_spec(client: Client, app: App[Any]) -> Schema | None:
    """The schema of `spec` as the server publishes it; None where it does not serve the kind. Raises `ApiError`."""
    kind = app.kind
    try:
        found = orjson.loads(await client.discover(f"/openapi/v3/apis/{kind.group}/{kind.version}"))
    except NotFound:
        return None
    for schema in found.get("components", {}).get("schemas", {}).values():
        named = schema.get("x-kubernetes-group-version-kind") or ()
        if any(
            one.get("kind") == kind.kind and one.get("group") == kind.group and one.get("version") == kind.version
            for one in named
        ):
            spec: Schema | None = schema.get("properties", {}).get("spec")
            return spec
    return None


def unknown_to(served: Schema, app: App[Any]) -> tuple[str, ...]:
    """Settings that the served schema does not have: the server would prune them."""
    known = {path for path, _ in schema_leaves(served)}
    return tuple(path for path, _ in schema_leaves(spec_schema(app)) if path not in known)
