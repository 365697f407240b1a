"""The typed values that a component returns: workloads and what belongs to them.

Small, frozen and checked when made. They name what an author decides; labels, owner references, ConfigMaps, hashes and
mounts are added by `hanei.render`. Any field of Kubernetes that is not named here is reached with `overlay=`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pydantic
from pydantic import Field

from hanei.app.files import FieldRef, SecretRef
from hanei.app.types import IntOrString, Quantity

PORT = Field(ge=1, le=65535)
NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class Value(pydantic.BaseModel):
    """Base of the typed values: frozen, and a misspelt field is refused."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Port(Value):
    """A port that a container listens on."""

    number: int = PORT
    name: str = Field(default="", pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=15)
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class Probe(Value):
    """How the kubelet asks a container about itself: over HTTP (`path`), by connecting (`port` alone) or by a `command`."""

    path: str = ""
    port: int = Field(default=0, ge=0, le=65535)
    command: tuple[str, ...] = ()
    delay: int = Field(default=0, ge=0)
    period: int = Field(default=10, ge=1)
    timeout: int = Field(default=1, ge=1)
    failures: int = Field(default=3, ge=1)


class Scratch(Value):
    """An empty volume that lives as long as the pod."""

    size: Quantity | None = None
    memory: bool = False


class HostPath(Value):
    """A file or folder of the node. `restricted` pods may not have one."""

    path: str = Field(min_length=1)
    type: Literal[
        "", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"
    ] = ""


class ExistingClaim(Value):
    """A PersistentVolumeClaim that somebody else made."""

    name: str = Field(min_length=1)
    access: Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"] = "ReadWriteOnce"


Volume = Scratch | HostPath | ExistingClaim


class Container(Value):
    """One container: its image, and the files, environment, secrets, ports, volumes and probes that it gets.

    `files` are versioned: a change restarts the pods. `live_files` are re-read by the process itself: a change reaches
    them in place. Keys of `files`, `live_files`, `secret_files` and `volumes` are absolute paths inside the container.
    `restricted=True` is for images that you build: non-root, read-only root, no capabilities.
    """

    image: str
    name: str = Field(default="", max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str | bool | int | float | SecretRef | FieldRef] = Field(default_factory=dict)
    files: Mapping[str, str | bytes] = Field(default_factory=dict)
    live_files: Mapping[str, str | bytes] = Field(default_factory=dict)
    secret_files: Mapping[str, SecretRef] = Field(default_factory=dict)
    ports: tuple[int | Port, ...] = ()
    volumes: Mapping[str, Volume] = Field(default_factory=dict)
    ready: Probe | None = None
    live: Probe | None = None
    startup: Probe | None = None
    requests: Mapping[str, Quantity] = Field(default_factory=dict)
    limits: Mapping[str, Quantity] = Field(default_factory=dict)
    privileged: bool = False
    restricted: bool = False


class Service(Value):
    """A Service in front of a workload's pods. Without a name it is the component's own: `<resource>-<component>`."""

    ports: tuple[int | Port, ...] = Field(min_length=1)
    name: str = ""
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    headless: bool = False


class Ingress(Value):
    """An Ingress to a component's Service."""

    host: str = ""
    path: str = "/"
    path_type: Literal["Prefix", "Exact", "ImplementationSpecific"] = "Prefix"
    class_name: str = ""
    port: int = PORT
    tls_secret: str = ""
    annotations: Mapping[str, str] = Field(default_factory=dict)


class Right(Value):
    """One rule of a component's Role. A component with rights gets a ServiceAccount, Role and RoleBinding of its own."""

    resources: tuple[str, ...] = Field(min_length=1)
    verbs: tuple[str, ...] = Field(min_length=1)
    group: str = ""
    names: tuple[str, ...] = ()


class Claim(Value):
    """A volume of its own for each pod of a StatefulSet, mounted at `mount`."""

    size: Quantity
    mount: str = Field(pattern=r"^/")
    name: str = Field(default="data", pattern=NAME, max_length=40)
    access: Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteOnce"
    storage_class: str = ""


class Workload(Value):
    """What every workload has. Use `Deployment` or `StatefulSet`."""

    containers: tuple[Container, ...] = Field(min_length=1)
    init: tuple[Container, ...] = ()
    name: str = ""
    replicas: int | None = Field(default=1, ge=0)
    service: tuple[int | Port, ...] = ()
    services: tuple[Service, ...] = ()
    ingress: tuple[Ingress, ...] = ()
    rights: tuple[Right, ...] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    grace_seconds: int | None = Field(default=None, ge=0)
    extra: tuple[Mapping[str, Any], ...] = ()
    overlay: Mapping[str, Any] = Field(default_factory=dict)


class Deployment(Workload):
    """Interchangeable pods. `replicas=None` leaves their number to an autoscaler."""

    strategy: Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class StatefulSet(Workload):
    """Pods with a name and a volume of their own. `update="OnDelete"`: a new version waits until pods are deleted by hand."""

    claims: tuple[Claim, ...] = ()
    update: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    parallel: bool = True
