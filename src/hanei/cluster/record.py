"""The note that a running cluster leaves in its folder, ``cluster.json``: written last, so it means "came up"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hanei.cluster.commands import Layout, Ports
from hanei.cluster.model import Cluster, Node

if TYPE_CHECKING:
    from pathlib import Path

KUBECONFIG = "kubeconfig"
_FILE = "cluster.json"


def write(layout: Layout, node: Node, programs: list[str]) -> None:
    """Atomically, so that a reader sees all of it or nothing."""
    _write(layout.folder, {"node": str(node), "ports": layout.ports.all(), "programs": programs})


def write_existing(folder: Path, server: str) -> None:
    """For a cluster of which we have the kubeconfig only."""
    _write(folder, {"node": str(Node.EXISTING), "ports": [], "programs": [], "server": server})


def _write(folder: Path, content: dict[str, Any]) -> None:
    draft = folder / f".{_FILE}"
    draft.write_text(json.dumps(content) + "\n")
    draft.replace(folder / _FILE)


def read(folder: Path) -> tuple[Cluster, list[str]] | None:
    """The cluster and the programs that must run for it to be alive; None if it never came up completely."""
    content = _content(folder)
    if content is None:
        return None
    if content["node"] == Node.EXISTING:
        found = Cluster(folder.name, folder, folder / KUBECONFIG, content["server"], audit_log=None, node=Node.EXISTING)
        return found, []
    layout = Layout(folder, Ports(*content["ports"]))
    cluster = Cluster(
        name=folder.name,
        folder=folder,
        kubeconfig=layout.kubeconfig(),
        server=layout.server,
        audit_log=layout.audit_log,
        node=Node(content["node"]),
    )
    return cluster, content["programs"]


def ports(clusters: Path) -> set[int]:
    """Ports given to any cluster of this user."""
    contents = [_content(folder) for folder in clusters.glob("*")]
    return {port for content in contents if content for port in content["ports"]}


def _content(folder: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads((folder / _FILE).read_text())
    except (OSError, ValueError):
        return None
    return content
