"""What must hold whatever failed: the oracles O1 to O4, O7 and O8 of DESIGN §10, as comparisons of what is there.

O5 (no planted secret) and O6 (bounds) are asked in `test_secrets` and where a fault could break them.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from hanei import kinds
from tests.system import world as w

if TYPE_CHECKING:
    from hanei.kinds import Kind
    from tests.fault.proxy import Seen

KINDS = (
    kinds.DEPLOYMENT, kinds.STATEFUL_SET, kinds.SERVICE, kinds.INGRESS, kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT,
    kinds.ROLE, kinds.ROLE_BINDING, kinds.CONTROLLER_REVISION,
)  # fmt: skip
_SERVER_MADE = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
_VOLATILE = frozenset((
    "clusterIP", "clusterIPs", "nodePort", "uid", "revision", "kubernetes.io/change-cause", "hanei.dev/applied",
    "deployment.kubernetes.io/revision",
))  # fmt: skip
_HASH = re.compile(r"\b[0-9a-f]{10,64}\b")
QUIET = 2.0
"""Seconds of O3 in `make test`; `make soak` waits 30."""


def end_state(world: w.World) -> list[str]:
    """O1: everything that Hanei keeps, as sorted JSON, without what the server chooses and what tells of the way there.

    Hashes stand as `HASH`, for a namespace's name is in some of them; the content that they are of is compared. Slices
    that nothing names any more wait for their collection, and are left out.
    """
    # A StatefulSet's own ControllerRevisions carry its pods' labels, but no role.
    items = [item for kind in KINDS for item in world.list(kind, "app.kubernetes.io/managed-by=hanei,hanei.dev/role")]
    others = json.dumps([item for item in items if not _is_slice(item)])
    kept = [item for item in items if not _is_slice(item) or item["metadata"]["name"] in others]
    return sorted(_stable(item, world.namespace) for item in kept)


def _is_slice(item: dict[str, Any]) -> bool:
    return item["metadata"]["labels"].get("hanei.dev/role") in ("slice", "live")


def _stable(item: dict[str, Any], namespace: str) -> str:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _SERVER_MADE}
    body = {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}
    return _HASH.sub("HASH", json.dumps(_cleaned(body), sort_keys=True).replace(namespace, "NAMESPACE"))


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items() if key not in _VOLATILE}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def creates_and_deletes(trace: list[Seen]) -> Counter[tuple[str, str, str]]:
    """O2: (created or deleted, resource, name) of what was done, told by the server's answer; an apply that creates is 201."""
    done: Counter[tuple[str, str, str]] = Counter()
    for seen in trace:
        if seen.write and seen.done and seen.status == 201:
            done["created", seen.call.resource, _HASH.sub("HASH", seen.call.name)] += 1
        elif seen.write and seen.done and seen.call.verb == "delete" and seen.status == 200:
            done["deleted", seen.call.resource, _HASH.sub("HASH", seen.call.name)] += 1
    return done


def quiet(world: w.World, seconds: float = QUIET) -> None:
    """O3: nothing is written but the Lease, once it has settled."""
    limit = time.monotonic() + 20
    while True:
        mark = w.audit_mark(world.cluster)
        time.sleep(seconds)
        found = w.writes(w.audited(world.cluster, since=mark), world.namespace)
        if not found:
            return
        assert time.monotonic() < limit, f"still writing: {found[:10]}"


def look_alikes(world: w.World, instance: str) -> dict[tuple[Kind, str], str]:
    """O4: foreign objects that look like ours, one of each kind: name nearly ours, our labels but no owner. → uid + version."""
    labels = {"app.kubernetes.io/managed-by": "somebody", "app.kubernetes.io/instance": instance}
    bodies: dict[Kind, dict[str, Any]] = {
        kinds.CONFIG_MAP: {"data": {"a": "b"}},
        kinds.SERVICE: {"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}},
        kinds.SERVICE_ACCOUNT: {},
        kinds.ROLE: {"rules": []},
        kinds.DEPLOYMENT: {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"look": "alike"}},
                "template": {
                    "metadata": {"labels": {"look": "alike"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }
        },
    }
    made = {}
    for kind, body in bodies.items():
        name = f"{instance}-foreign"
        found = world.create(kind, {"metadata": {"name": name, "labels": labels}, **body})
        made[kind, name] = found["metadata"]["uid"]
    return made


def untouched(world: w.World, planted: dict[tuple[Kind, str], str]) -> None:
    """O4: the planted ones are what they were, and no field of them is ours."""
    for (kind, name), uid in planted.items():
        found = world.get(kind, name)
        assert found["metadata"]["uid"] == uid
        assert "hanei" not in {entry["manager"] for entry in found["metadata"]["managedFields"]}, name
        assert "ownerReferences" not in found["metadata"], name


def workloads(world: w.World, instance: str) -> list[dict[str, Any]]:
    """Those that Hanei made for a resource."""
    selector = f"app.kubernetes.io/managed-by=hanei,app.kubernetes.io/instance={instance}"
    return [*world.list(kinds.DEPLOYMENT, selector), *world.list(kinds.STATEFUL_SET, selector)]


def honest(resource: dict[str, Any], workloads: list[dict[str, Any]]) -> None:
    """O7: Ready says what the workloads say, of this generation."""
    assert w.current(resource)
    ready = w.condition(resource, "Ready")["status"] == "True"
    there = all(
        item["status"].get("observedGeneration") == item["metadata"]["generation"]
        and item["status"].get("readyReplicas", 0)
        == item["spec"]["replicas"]
        == item["status"].get("updatedReplicas", 0)
        for item in workloads
    )
    assert ready is there
