"""What the operator keeps of each kind of object, and how that becomes the observed facts of a decision.

`transform_for` is given to informers, `observed_object` and its siblings to `gather`. Of a workload only the few fields
are kept that readiness and plans need; of a Secret nothing but digests (see `secrets`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from hanei import kinds
from hanei.kinds import Kind
from hanei.plan.observed import ObservedObject, ObservedPod, Record, WorkloadStatus
from hanei.plan.ownership import is_shadow
from hanei.render import labels
from hanei.runtime.keep import keep

if TYPE_CHECKING:
    from hanei.runtime.keep import Transform
    from hanei.runtime.store import Cached, ObjectMeta

OWNER = "owner"
INSTANCE = "instance"
TARGET = "target"
RECORD_ROLE = "record"
GOOD = "hanei.dev/good"
_KEPT: dict[Kind, tuple[str, ...]] = {
    **dict.fromkeys(
        (kinds.DEPLOYMENT, kinds.STATEFUL_SET),
        ("spec.replicas", "spec.template.metadata.labels", "spec.template.metadata.annotations", "status"),
    ),
    kinds.POD: ("status.phase", "status.reason", "status.conditions", "status.containerStatuses", "status.initContainerStatuses"),
    kinds.CONTROLLER_REVISION: ("data", "revision"),
    kinds.HPA: ("spec.scaleTargetRef",),
}  # fmt: skip


def transform_for(kind: Kind) -> Transform:
    """What an informer keeps of this kind: metadata always, and the named paths."""
    return keep(kind, *_KEPT.get(kind, ()))


def by_owner(item: Cached) -> tuple[str, ...]:
    """Index: the uid of the controller owner."""
    owner = item.meta.controller
    return (owner.uid,) if owner else ()


def by_instance(item: Cached) -> tuple[str, ...]:
    """Index: namespace/instance label, for pods, which their ReplicaSet owns."""
    instance = item.meta.labels.get(labels.INSTANCE)
    return (f"{item.meta.namespace}/{instance}",) if instance else ()


def by_target(item: Cached) -> tuple[str, ...]:
    """Index: namespace/kind/name that an autoscaler targets."""
    target = _decoded(item).get("spec", {}).get("scaleTargetRef", {})
    return (f"{item.meta.namespace}/{target.get('kind')}/{target.get('name')}",)


def own_entry(meta: ObjectMeta) -> dict[str, Any] | None:
    """Our own managedFields entry of the object itself, decoded; None without one."""
    for entry in meta.managedFields:
        if entry.manager == "hanei" and entry.operation == "Apply" and not entry.subresource:
            found: dict[str, Any] = orjson.loads(bytes(entry.fieldsV1))
            return found
    return None


def _shadowed(meta: ObjectMeta) -> bool:
    return any(is_shadow(entry.manager, entry.operation, entry.subresource) for entry in meta.managedFields)


def observed_object(item: Cached) -> ObservedObject:
    """The facts about one object that carries our labels."""
    meta, notes = item.meta, item.meta.annotations
    owner = meta.controller
    workload = _workload(item) if item.kind in kinds.WORKLOADS else {}
    return ObservedObject(
        kind=item.kind, name=meta.name, uid=meta.uid, resource_version=meta.resourceVersion, generation=meta.generation,
        component=meta.labels.get(labels.COMPONENT, ""), role=meta.labels.get(labels.ROLE, ""),
        applied=notes.get(labels.APPLIED, ""), immutable=notes.get(labels.IMMUTABLE, ""), fields=own_entry(meta), shadowed=_shadowed(meta),
        owner_uid=owner.uid if owner else "", owner=f"{owner.kind}/{owner.name}" if owner else "",
        adopt_by=notes.get(labels.ADOPT_BY, ""), belongs=f"{meta.labels.get(labels.APP, '')}/{meta.labels.get(labels.INSTANCE, '')}",
        deleting=meta.deletionTimestamp is not None, **workload,
    )  # fmt: skip


def _workload(item: Cached) -> dict[str, Any]:
    found = _decoded(item)
    spec, status = found.get("spec", {}), found.get("status", {})
    template = spec.get("template", {}).get("metadata", {})
    annotations = template.get("annotations") or {}
    return {
        "wanted_replicas": spec.get("replicas"),
        "template_hash": (template.get("labels") or {}).get(labels.HASH, ""),
        "stamp": annotations.get(labels.SECRETS, ""),
        "causes": tuple(
            dict.fromkeys((annotations.get(labels.CAUSE, ""), item.meta.annotations.get(labels.CAUSE, "")))
        ),
        "status": WorkloadStatus(
            observed_generation=status.get("observedGeneration", 0),
            replicas=status.get("replicas", 0),
            updated=status.get("updatedReplicas", 0),
            ready=status.get("readyReplicas", 0),
            available=status.get("availableReplicas", 0),
            current_revision=status.get("currentRevision", ""),
            update_revision=status.get("updateRevision", ""),
            problem=_problem(status.get("conditions") or ()),
        ),
    }


def _problem(conditions: Any) -> str:
    for condition in conditions:
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message", ""))
        if condition.get("reason") == "ProgressDeadlineExceeded":
            return str(condition.get("message", ""))
    return ""


def observed_pod(item: Cached) -> ObservedPod:
    """The facts about one pod."""
    status = _decoded(item).get("status", {})
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    found = item.meta.labels
    return ObservedPod(
        item.meta.name, item.meta.uid, found.get(labels.COMPONENT, ""), found.get(labels.HASH, ""), ready,
        item.meta.deletionTimestamp is not None, _trouble(status), found.get(labels.WORKLOAD, ""),
    )  # fmt: skip


def _trouble(status: dict[str, Any]) -> str:
    """Why a pod does not run, as the kubelet or the scheduler says it."""
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = one.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"container {one.get('name')}: {waiting['reason']}" + (
                f": {waiting['message']}" if waiting.get("message") else ""
            )
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"not scheduled: {condition.get('message', '')}"
    return ""


def record(item: Cached) -> Record:
    """A record, from its ControllerRevision."""
    found = _decoded(item)
    data = found.get("data") or {}
    return Record(
        item.meta.name, item.meta.uid, int(found.get("revision", 0)), data.get("spec", {}), data.get("hashes", {}),
        tuple((_kind_in(one), one["name"], one["uid"]) for one in data.get("inventory", ())),
        GOOD in item.meta.annotations,
    )  # fmt: skip


def _kind_in(entry: dict[str, Any]) -> Kind:
    group, _, version = entry["apiVersion"].rpartition("/")
    return Kind(group, version, entry["kind"], entry["plural"])


def is_record(item: Cached) -> bool:
    """Whether a ControllerRevision is one of ours, not a StatefulSet's."""
    return item.meta.labels.get(labels.ROLE) == RECORD_ROLE


def _decoded(item: Cached) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(item.raw)
    except msgspec.MsgspecError:
        return {}
    return found
