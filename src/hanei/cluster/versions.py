"""Which programs a local cluster is made of, and which versions of them: the one place to change at an upgrade.

Used by the providers (where to look, what to ask for) and by `hanei.cluster.commands`. Nothing here touches a disk
except to read the package's own files. An upgrade also means `go mod tidy` on ``gobuild/go.mod.in``.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from importlib import resources
from typing import TYPE_CHECKING

from hanei.errors import ClusterError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

KUBERNETES = "v1.37.2"
ETCD = "v3.7.0"
KWOK = "v0.8.0"

ALL_PROGRAMS = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"})
"""What a cluster with simulated nodes runs."""

SERVER_PROGRAMS = frozenset({"etcd", "kube-apiserver"})
"""What a cluster without nodes runs."""

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def architecture() -> str:
    """The machine in Go's word, ``amd64`` or ``arm64``; raise ClusterError where no control plane is published."""
    found = _ARCHITECTURES.get(platform.machine().lower())
    if sys.platform != "linux" or found is None:
        raise ClusterError(
            f"a local cluster needs Linux on amd64 or arm64, this is {sys.platform} on {platform.machine()}",
            hint="use an existing cluster (kind, k3s): hanei cluster up --kubeconfig FILE, or set HANEI_KUBECONFIG",
        )
    return found


def go_module() -> Traversable:
    """The folder of the Go module that holds all programs; its files end in ``.in``."""
    return resources.files("hanei.cluster") / "gobuild"


def stages() -> Traversable:
    """The folder of KWOK's stages."""
    return resources.files("hanei.cluster") / "stages"


def key() -> str:
    """A short digest of everything that decides what the binaries are; part of the cache folder's name."""
    digest = hashlib.sha256("\n".join((KUBERNETES, ETCD, KWOK, architecture())).encode())
    for file in sorted(go_module().iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".in"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
