"""What was observed of one resource and its objects: frozen facts, the input of every decision.

Made by `hanei.operator.gather` from caches, or by `hanei plan` from a few lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.kinds import Kind


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """The counts that readiness needs."""

    observed_generation: int = 0
    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    current_revision: str = ""
    update_revision: str = ""
    problem: str = ""
    """The message of a condition that says why it does not go on (ReplicaFailure, ProgressDeadlineExceeded)."""


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """One object that carries our labels.

    `fields` is our own managedFields entry, decoded; None where we have none. `wanted_replicas`, `template_hash`,
    `stamp` and `causes` are read from a workload's spec; they are empty for other kinds.
    """

    kind: Kind
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    component: str = ""
    role: str = ""
    applied: str = ""
    immutable: str = ""
    fields: Mapping[str, Any] | None = None
    owner_uid: str = ""
    owner: str = ""
    """Kind/name of the controller owner."""
    adopt_by: str = ""
    belongs: str = ""
    """App and resource by the labels, as app/instance: whose an object without an owner is."""
    deleting: bool = False
    wanted_replicas: int | None = None
    template_hash: str = ""
    stamp: str = ""
    causes: tuple[str, ...] = ()
    """The cause as the pod template and as the workload itself carry it; they differ only if somebody changed one."""
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    shadowed: bool = False
    """Whether another entry owns our fields beside ours, see `hanei.plan.ownership`."""

    @property
    def ref(self) -> tuple[str, str]:
        """(kind, name)."""
        return (self.kind.kind, self.name)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod: which component, workload and hash it has, and how it is."""

    name: str
    uid: str
    component: str
    hash: str
    ready: bool
    deleting: bool = False
    problem: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One accepted spec, as it was recorded."""

    name: str
    uid: str
    revision: int
    spec: Mapping[str, Any]
    hashes: Mapping[str, str] = field(default_factory=dict)
    inventory: tuple[tuple[Kind, str, str], ...] = ()
    """(kind, name, uid) of every object made for it."""
    good: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that was observed of one resource."""

    uid: str = ""
    objects: Mapping[tuple[str, str], ObservedObject] = field(default_factory=dict)
    pods: tuple[ObservedPod, ...] = ()
    records: tuple[Record, ...] = ()
    """Oldest first."""
    autoscaled: frozenset[tuple[str, str]] = frozenset()
    """(kind, name) of workloads that an autoscaler targets."""

    @property
    def accepted(self) -> Record | None:
        """The newest record."""
        return self.records[-1] if self.records else None
