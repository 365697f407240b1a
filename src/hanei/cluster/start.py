"""Bringing the programs of one cluster up, in order, until it answers.

Called by `hanei.cluster.lifecycle` with the cluster's lock held and an empty folder. Everything started here is
recorded below the folder, so whoever calls can stop it whatever happened.
"""

from __future__ import annotations

import random
import socket
import time
from typing import TYPE_CHECKING, Any

from hanei.cluster import commands, http, objects, processes, versions
from hanei.cluster.commands import Layout, Ports
from hanei.cluster.model import Node
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from hanei.cluster.progress import Progress

_PATIENCE = 90.0
"""Seconds for one step of the start; it takes about two on an idle machine, so this is for a very busy one."""
_POLL = 0.05

_PORT_RANGE = range(20000, 30000)
"""Below the ports that the kernel gives to outgoing connections, so none of those takes ours in between."""

_PROBE_NAMESPACE = "kube-system"


def free_ports(taken: Collection[int]) -> Ports:
    """Three ports on 127.0.0.1 that nobody listens on and no other cluster (`taken`) has been given."""
    found: list[int] = []
    # Random, so that two machines' worth of tests in one network namespace rarely try the same.
    for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
        if port not in taken and _is_free(port):
            found.append(port)
            if len(found) == len(Ports.__slots__):
                return Ports(*found)
    raise ClusterError(f"no free port on 127.0.0.1 between {_PORT_RANGE.start} and {_PORT_RANGE.stop}")


def bring_up(layout: Layout, node: Node, programs: Mapping[str, Path], progress: Progress) -> None:
    """Write the folder's files, start the programs, and return when the cluster does what it is for."""
    from hanei.cluster import certificates

    certificates.issue(layout.pki)
    _write_files(layout)
    progress.note("starting etcd and kube-apiserver")
    processes.start(layout.folder, commands.etcd(layout, programs["etcd"]))
    processes.start(layout.folder, commands.apiserver(layout, programs["kube-apiserver"]))
    _until(layout, "the API server to be ready", lambda: _status(layout, "/readyz") == 200)
    if node is Node.SIMULATED:
        progress.note("starting controllers, scheduler and simulated nodes")
        for seed in objects.seeds():
            _post(layout, seed)
        processes.start(layout.folder, commands.controller_manager(layout, programs["kube-controller-manager"]))
        processes.start(layout.folder, commands.scheduler(layout, programs["kube-scheduler"]))
        processes.start(layout.folder, commands.kwok(layout, programs["kwok"]))
        _until(layout, "the nodes to be Ready", lambda: _nodes_ready(layout))
        _until(layout, "the service account controller", lambda: _has_account(layout))


def answers(kubeconfig: Path) -> bool:
    """Whether the API server says that it is ready."""
    try:
        return http.request(kubeconfig, "GET", "/readyz")[0] == 200
    except ClusterError:
        return False


def _write_files(layout: Layout) -> None:
    authority = (layout.pki / "ca.crt").read_bytes()
    for identity in ("admin", "kube-controller-manager", "kube-scheduler", "kwok"):
        certificate, key = ((layout.pki / f"{identity}.{kind}").read_bytes() for kind in ("crt", "key"))
        content = commands.kubeconfig(layout.server, authority, certificate, key)
        layout.kubeconfig(identity).touch(mode=0o600)
        layout.kubeconfig(identity).write_text(content)
    layout.audit_policy.write_text(commands.audit_policy())
    files = sorted(entry.name for entry in versions.stages().iterdir() if entry.name.endswith(".yaml"))
    layout.stages.write_text("---\n".join((versions.stages() / name).read_text() for name in files))


def _until(layout: Layout, what: str, reached: Callable[[], bool]) -> None:
    """Wait for `reached`; ClusterError as soon as one of the programs has ended."""
    limit = time.monotonic() + _PATIENCE
    while not reached():
        for name in processes.started(layout.folder):
            if processes.pid(layout.folder, name) is None:
                raise ClusterError(f"{name} ended while starting:\n{processes.log_tail(layout.folder, name)}")
        if time.monotonic() > limit:
            raise ClusterError(f"waited {_PATIENCE:.0f} s for {what}, in vain", hint="is the machine overloaded?")
        time.sleep(_POLL)


def _status(layout: Layout, path: str) -> int:
    return _ask(layout, path)[0]


def _ask(layout: Layout, path: str) -> tuple[int, dict[str, Any]]:
    """(0, {}) while nobody answers."""
    try:
        return http.request(layout.kubeconfig(), "GET", path)
    except ClusterError:
        return 0, {}


def _post(layout: Layout, seed: objects.Seed) -> None:
    status, answer = http.request(layout.kubeconfig(), "POST", seed.path, seed.body)
    if status != 201:
        raise ClusterError(f"{seed.body['kind']} {seed.body['metadata']['name']} was refused: {answer.get('message')}")


def _nodes_ready(layout: Layout) -> bool:
    """Ready and without the taint that keeps pods away until the node controller has seen it."""
    nodes = _ask(layout, "/api/v1/nodes")[1].get("items", [])
    return bool(nodes) and all(
        not node["spec"].get("taints")
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )
        for node in nodes
    )


def _has_account(layout: Layout) -> bool:
    """A namespace without its default ServiceAccount accepts no pod."""
    return _status(layout, "/api/v1/namespaces/default/serviceaccounts/default") == 200


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
