"""The objects that a fresh cluster gets before anybody uses it: simulated nodes and the default StorageClass. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_NODES = 2
_PODS_PER_NODE = 5000
PROVISIONER = "kwok.x-k8s.io/volume"
STORAGE_CLASS = "standard"


@dataclass(frozen=True, slots=True)
class Seed:
    """One object and the collection it is posted to."""

    path: str
    body: dict[str, Any]


def seeds() -> list[Seed]:
    return [
        Seed("/apis/storage.k8s.io/v1/storageclasses", _storage_class()),
        *(Seed("/api/v1/nodes", _node(number)) for number in range(1, _NODES + 1)),
    ]


def _storage_class() -> dict[str, Any]:
    """Claims bind at once: a simulated node has no place of its own that a claim would have to wait for."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def _node(number: int) -> dict[str, Any]:
    name = f"simulated-{number}"
    room = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": str(_PODS_PER_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "hanei.dev/simulated": "true",
            },
        },
        # A /16 for each node: a pod keeps its address to itself even when a node is full.
        "spec": {"podCIDR": f"10.{100 + number}.0.0/16", "podCIDRs": [f"10.{100 + number}.0.0/16"]},
        "status": {"capacity": room, "allocatable": room},
    }
