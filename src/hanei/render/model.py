"""What rendering yields: desired objects, grouped by component. Frozen; made by `hanei.render.render` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.app.files import SecretRef
    from hanei.errors import RenderError
    from hanei.kinds import Kind

UNKNOWN = "unknown"
"""The stamp of a component whose Secret could not be read when its workload was made."""


class Role(StrEnum):
    """What an object is to its component; also the order in which a component's objects are written."""

    SLICE = "slice"
    LIVE = "live"
    ACCESS = "access"
    OBJECT = "object"
    WORKLOAD = "workload"


ORDER = {role: index for index, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Desired:
    """One object as it should be. `body` is treated as frozen; `digest` is over all of it but the applied annotation."""

    kind: Kind
    name: str
    role: Role
    component: str
    body: Mapping[str, Any]
    digest: str

    @property
    def ref(self) -> tuple[str, str]:
        """(kind, name): unique within a namespace and a resource."""
        return (self.kind.kind, self.name)


@dataclass(frozen=True, slots=True)
class Facets:
    """The parts of a component that an effect speaks about, each as a digest or a number. Equal facets: nothing to do."""

    template: str = ""
    replicas: int | None = None
    live: str = ""
    objects: tuple[tuple[str, str], ...] = ()
    """(Kind/name, digest) of every object but slices, live files and the workload."""
    rest: str = ""
    """The workload without replicas and template."""
    immutable: str = ""
    strategy: str = ""
    """How a changed template reaches the pods: RollingUpdate, Recreate or OnDelete."""


@dataclass(frozen=True, slots=True)
class RenderedComponent:
    """One component, rendered. `objects` is empty and `error` is set where it failed; both empty: not wanted now."""

    name: str
    objects: tuple[Desired, ...] = ()
    workload: Desired | None = None
    facets: Facets | None = None
    stamp: str = ""
    secrets: tuple[SecretRef, ...] = ()
    unknown_secrets: tuple[SecretRef, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    slice_hash: str = ""
    error: RenderError | None = None

    @property
    def hash(self) -> str:
        """The component hash: over the pod template. "" without a workload."""
        return self.facets.template if self.facets else ""

    @property
    def wanted(self) -> bool:
        """Whether the component has a workload now."""
        return self.workload is not None


@dataclass(frozen=True, slots=True)
class Rendered:
    """All components of a resource, in order of declaration."""

    components: tuple[RenderedComponent, ...]

    def __getitem__(self, name: str) -> RenderedComponent:
        return next(item for item in self.components if item.name == name)

    @property
    def errors(self) -> tuple[RenderError, ...]:
        """What went wrong, one per failed component."""
        return tuple(item.error for item in self.components if item.error is not None)


@dataclass(frozen=True, slots=True)
class SecretsView:
    """What is known of Secrets when rendering: digests only, by (Secret, key) and then by the id of the HMAC key.

    A pair that is absent is *unknown* if the component needs it, and known to be absent if it is optional; keys of
    Secrets in `unreadable` (missing, or not to be read) are always unknown. `live` and `live_hash` are the stamp and the hash that each component's
    workload carries now.
    """

    digests: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    newest: str = ""
    live: Mapping[str, str] = field(default_factory=dict)
    live_hash: Mapping[str, str] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
