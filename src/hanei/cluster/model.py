"""What a cluster is to its users: `Cluster`, the kinds of its nodes, and its row in `hanei cluster status`.

Values only, and `Cluster.request` for whoever needs a word with the API server without a client library.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  read at run time by `dataclasses.fields` users
from typing import Any

from hanei.cluster import http


class Node(enum.StrEnum):
    """What pods run on."""

    SIMULATED = "simulated"
    """KWOK's nodes: pods become Ready, nothing runs in them."""
    NONE = "none"
    """etcd and the API server alone: objects are kept, nothing acts on them."""
    REAL = "real"
    """A kubelet with containers; comes later."""
    EXISTING = "existing"
    """A cluster that was there before; whatever it has."""


class State(enum.StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    """A process is bringing it up (or down) at this moment."""
    REGISTERED = "registered"
    """An existing cluster that has a name here; whether it answers is not asked."""
    STALE = "stale"
    """Its programs are gone, its folder is left, as after a reboot."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that answers. `audit_log` is None where we did not start the API server."""

    name: str
    folder: Path
    kubeconfig: Path
    server: str
    audit_log: Path | None
    node: Node

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """One request as the kubeconfig's user: (HTTP status, decoded body; ``{"text": …}`` if it is no JSON object).

        ClusterError when no answer comes; what the server refuses is an answer like any other.
        """
        return http.request(self.kubeconfig, method, path, body, content_type)


@dataclass(frozen=True, slots=True)
class Status:
    """One row of `status`; `cluster` is None unless it runs."""

    name: str
    state: State
    folder: Path
    cluster: Cluster | None
