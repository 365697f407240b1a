"""How far a component is: from its workload's status, and from the hash of its pods.

Ready means that observed generation, updated and available counts and the pods' hash all agree (situations S43, S81):
never that a write was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanei.plan.observed import Observed, ObservedPod
    from hanei.render.model import RenderedComponent


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one component is. `done`: everything wanted runs, and nothing else does."""

    done: bool
    state: str
    reason: str
    waits_for: str = ""
    wanted: int = 0
    updated: int = 0
    ready: int = 0
    live_hash: str = ""


def progress(component: RenderedComponent, observed: Observed) -> Progress:
    """The progress of one component that rendered."""
    if component.workload is None:
        left = [pod for pod in observed.pods if pod.component == component.name]
        return Progress(not left, "Absent", "NotWanted", f"{len(left)} pods to go" if left else "")
    present = observed.objects.get(component.workload.ref)
    if present is None:
        return Progress(False, "Progressing", "Creating", "the workload to be made")
    pods = [pod for pod in observed.pods if pod.workload == component.workload.name]
    status, wanted = present.status, present.wanted_replicas if present.wanted_replicas is not None else 1
    updated = status.updated
    if status.update_revision and status.update_revision == status.current_revision:
        updated = status.replicas  # a StatefulSet counts only those still to be updated once all are
    live = _live_hash(pods)
    counts: dict[str, Any] = {"wanted": wanted, "updated": updated, "ready": status.ready, "live_hash": live}
    if present.template_hash != component.hash:
        return Progress(False, "Progressing", "Updating", "the workload to be changed", **counts)
    if status.observed_generation < present.generation:
        return Progress(False, "Progressing", "Updating", "the cluster to notice the change", **counts)
    if updated == status.replicas == status.available == wanted and _agree(pods, component.hash, wanted):
        return Progress(True, "Ready", "Ready", "", **counts)
    if component.facets is not None and component.facets.strategy == "OnDelete" and updated < wanted:
        return Progress(
            False, "Waiting", "ManualUpdate", f"{wanted - updated} pods to be deleted by hand (OnDelete)", **counts
        )
    trouble = status.problem or next(
        (f"pod {pod.name}: {pod.problem}" for pod in pods if pod.problem and not pod.deleting), ""
    )
    reason = "Failing" if trouble else "Updating" if updated < wanted else "Starting"
    return Progress(
        False, "Progressing", reason, trouble or _waits(status.replicas, updated, status.available, wanted), **counts
    )


def _agree(pods: list[ObservedPod], wanted_hash: str, wanted: int) -> bool:
    """Whether every pod that stays has the wanted hash. Pods are watched by their labels; none seen where some must be is not agreement."""
    staying = [pod for pod in pods if not pod.deleting]
    return len(staying) == wanted and all(pod.hash == wanted_hash for pod in staying)


def _live_hash(pods: list[ObservedPod]) -> str:
    found = {pod.hash for pod in pods if not pod.deleting}
    return found.pop() if len(found) == 1 else ""


def _waits(present: int, updated: int, available: int, wanted: int) -> str:
    if updated < wanted:
        return f"{wanted - updated} of {wanted} pods to be replaced"
    if present > wanted:
        return f"{present - wanted} pods to stop"
    return f"{wanted - available} of {wanted} pods to become ready"
