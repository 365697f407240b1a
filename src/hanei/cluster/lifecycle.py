"""`up`, `down`, `status`, `find` and `prepare`: the life of a cluster as its users see it.

Each cluster has a lock, held while it is brought up or down, so any number of processes may ask for the same one. What
an `up` that did not finish started is stopped before the error leaves; what a reboot left is cleaned up by the next.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hanei.cluster import binaries, existing, lock, places, processes, record, start, versions
from hanei.cluster.commands import STOP_ORDER, Layout
from hanei.cluster.model import Cluster, Node, State, Status
from hanei.cluster.progress import Progress, Silent
from hanei.errors import ClusterError, WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping

_ATTEMPTS = 3
"""Tries of a start. A port can be taken between choosing and listening; thrice in a row is another fault."""


def up(
    name: str = "default",
    *,
    node: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    progress: Progress | None = None,
) -> Cluster:
    """The running cluster `name`, started if need be; returns when it answers and its nodes are Ready.

    `node` is simulated unless given. With `kubeconfig` or `context` the cluster is an existing one, which then has this
    `name` here until `down`; a `context` alone is looked up where kubectl would. ``HANEI_KUBECONFIG`` in the environment
    names an existing cluster that is used as it is, whatever `name` and `node` say. Raises ClusterError, or WrongUse for
    a name or node that cannot be.
    """
    progress = progress or Silent()
    folder = places.cluster(name)
    waiting = f"cluster {name} is being started or stopped; waiting"
    if kubeconfig or context:
        if node is not None:
            raise WrongUse("an existing cluster has the nodes that it has", hint="leave --node out")
        source = Path(kubeconfig).expanduser().absolute() if kubeconfig else existing.default_kubeconfig()
        with lock.held(_lock(name), progress, waiting=waiting):
            if (running := _running(folder)) is not None:
                _same_kind(running, Node.EXISTING)
            elif folder.exists():
                _remove(folder)
            return existing.register(folder, source, context)
    if (used := _used()) is not None:
        return used
    kind = _kind(node or Node.SIMULATED)
    with lock.held(_lock(name), progress, waiting=waiting):
        if (running := _running(folder)) is not None:
            return _same_kind(running, kind)
        if folder.exists():
            progress.note(f"removing what is left of cluster {name}")
            _remove(folder)
        needed = versions.ALL_PROGRAMS if kind is Node.SIMULATED else versions.SERVER_PROGRAMS
        return _start(folder, kind, binaries.prepare(needed, progress), progress)


def down(name: str = "default") -> bool:
    """Stop a cluster and remove its folder; False if there was none. An existing cluster is forgotten and runs on."""
    folder = places.cluster(name)
    with lock.held(_lock(name)):
        there = folder.exists()
        if there:
            _remove(folder)
        lock.discard(_lock(name))
        return there


def find(name: str = "default") -> Cluster | None:
    """The cluster `name` if it runs, or is an existing one; the one of ``HANEI_KUBECONFIG`` where that is set."""
    return _used() or _running(places.cluster(name))


def status() -> list[Status]:
    """Every cluster that has a folder, by name."""
    folders = sorted(entry for entry in places.clusters().glob("*") if entry.is_dir())
    return [_status(folder) for folder in folders]


def prepare(progress: Progress | None = None, *, node: str = Node.SIMULATED) -> Mapping[str, Path]:
    """Make every program present without starting any; returns name → path."""
    kind = _kind(node)
    needed = versions.ALL_PROGRAMS if kind is Node.SIMULATED else versions.SERVER_PROGRAMS
    return binaries.prepare(needed, progress or Silent())


def _kind(node: str) -> Node:
    try:
        kind = Node(node)
    except ValueError:
        kind = Node.EXISTING
    if kind is Node.REAL:
        raise ClusterError(
            "a real node comes with issue C",
            hint="until then use kind or k3s: hanei cluster up --kubeconfig FILE",
        )
    if kind is Node.EXISTING:
        raise WrongUse(f"node {node!r} is not known", hint="use simulated, real or none")
    return kind


def _used() -> Cluster | None:
    """The existing cluster that the environment names."""
    given = os.environ.get("HANEI_KUBECONFIG")
    return existing.as_it_is(Path(given).expanduser().absolute()) if given else None


def _start(folder: Path, node: Node, programs: Mapping[str, Path], progress: Progress) -> Cluster:
    for attempt in range(1, _ATTEMPTS + 1):
        layout = Layout(folder, start.free_ports(record.ports(places.clusters())))
        try:
            folder.mkdir(mode=0o700, parents=True)
            start.bring_up(layout, node, programs, progress)
            record.write(layout, node, processes.started(folder))
        except BaseException as error:
            taken = "address already in use" in str(error)
            _remove(folder)
            if not taken or attempt == _ATTEMPTS:
                raise
            progress.note("a port was taken meanwhile; trying others")
            continue
        cluster = _running(folder)
        if cluster is not None:
            return cluster
        break
    raise ClusterError(f"cluster {folder.name} ended right after its start")


def _running(folder: Path) -> Cluster | None:
    """The cluster in a folder if it came up and each of its programs still runs."""
    found = record.read(folder)
    if found is None:
        return None
    cluster, programs = found
    return cluster if all(processes.pid(folder, program) is not None for program in programs) else None


def _status(folder: Path) -> Status:
    cluster = _running(folder)
    if cluster is not None:
        state = State.REGISTERED if cluster.node is Node.EXISTING else State.RUNNING
        return Status(folder.name, state, folder, cluster)
    state = State.STARTING if lock.busy(_lock(folder.name)) else State.STALE
    return Status(folder.name, state, folder, None)


def _same_kind(cluster: Cluster, node: Node) -> Cluster:
    if cluster.node is not node:
        raise ClusterError(
            f"cluster {cluster.name} runs with node {cluster.node}, not {node}",
            hint=f"choose another name, or stop it first: hanei cluster down {cluster.name}",
        )
    return cluster


def _remove(folder: Path) -> None:
    """Stop what runs and remove the folder. Who writes is gone before whom it writes to."""
    processes.stop(folder, STOP_ORDER[:3])
    for name in STOP_ORDER[3:]:
        processes.stop(folder, [name])
    shutil.rmtree(folder)


def _lock(name: str) -> str:
    return f"cluster-{name}"
