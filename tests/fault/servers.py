"""A cluster's own programs, ended, frozen, started again, doubled, and put back to an earlier state: the real etcd and API
server. Each test has a cluster of etcd and API server alone, for nothing else may be harmed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import orjson

from hanei.cluster import down, http, processes, start, up
from hanei.cluster.commands import Command
from hanei.errors import ClusterError
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei import App
    from hanei.cluster import Cluster

ETCD, SERVER, SECOND = "etcd", "kube-apiserver", "second-apiserver"
NAMESPACE = "default"
"""Of all that is tested here: nobody is there who would make another's ServiceAccount."""


@contextlib.contextmanager
def servers(*apps: App[Any]) -> Iterator[w.World]:
    """A fresh cluster of etcd and API server, with the apps' CRDs."""
    name = f"fault-{secrets.token_hex(4)}"
    cluster = up(name, node="none")
    try:
        w.install(cluster, *apps)
        yield w.World(cluster, NAMESPACE)
    finally:
        processes.stop(cluster.folder, [SECOND])
        down(name)


@contextlib.contextmanager
def operated(world: w.World, app: App[Any], named: str, folder: Path, *tune: str) -> Iterator[w.Operator]:
    """An operator with exactly its rights. Without an election: what a leader that lost its Lease does is tested apart."""
    kubeconfig = w.grant(world.cluster, [app], world.namespace, folder)
    knobs = (part for knob in tune for part in ("--tune", knob))
    with w.running(
        w.Operator(kubeconfig, folder / "operator.log", (named,), ("--no-leader-election", *knobs))
    ) as found:
        yield found


def command(cluster: Cluster, name: str, **flags: str) -> Command:
    """The command line with which a program of the cluster runs at this moment, some flags changed or added."""
    pid = processes.pid(cluster.folder, name)
    assert pid is not None, f"{name} does not run"
    program, *given = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    values = dict(one.removeprefix("--").split("=", 1) for one in given) | flags
    return Command(name, (program, *(f"--{flag}={value}" for flag, value in values.items())), {})


def kill(cluster: Cluster, name: str) -> None:
    """As a power cut would."""
    pid = processes.pid(cluster.folder, name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    w.wait_for(f"{name} to end", lambda: processes.pid(cluster.folder, name) is None)


def begin(cluster: Cluster, one: Command) -> None:
    """Start a program."""
    processes.start(cluster.folder, one)


def answering(cluster: Cluster) -> None:
    """Wait until the API server says that it is ready, which it does not without etcd."""
    w.wait_for("the API server to be ready", lambda: start.answers(cluster.kubeconfig))


@contextlib.contextmanager
def frozen(cluster: Cluster, name: str) -> Iterator[None]:
    """A program that stands still, its connections open."""
    pid = processes.pid(cluster.folder, name)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Snapshot:
    """What etcd holds at one moment: taken and put back with the cluster's programs down, as a restore is done."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._copy = cluster.folder / "snapshot"
        with self._at_rest():
            shutil.copytree(cluster.folder / "etcd", self._copy)

    def restore(self) -> None:
        """Back to that moment: resourceVersions too."""
        with self._at_rest():
            shutil.rmtree(self._cluster.folder / "etcd")
            shutil.copytree(self._copy, self._cluster.folder / "etcd")

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        etcd, server = command(self._cluster, ETCD), command(self._cluster, SERVER)
        processes.stop(self._cluster.folder, [SERVER])
        processes.stop(self._cluster.folder, [ETCD])
        yield
        begin(self._cluster, etcd)
        begin(self._cluster, server)
        answering(self._cluster)


def disarm(cluster: Cluster) -> None:
    """Take etcd's NOSPACE alarm back, as an administrator does after making room (`etcdctl alarm disarm`)."""
    flags = command(cluster, ETCD).argv
    (url,) = (flag.partition("=")[2] for flag in flags if flag.startswith("--listen-client-urls="))
    context = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    context.load_cert_chain(cluster.folder / "pki" / "apiserver.crt", cluster.folder / "pki" / "apiserver.key")

    def alarms(action: str, **of: str) -> list[dict[str, str]]:
        body = orjson.dumps({"action": action, **of})
        with urlopen(Request(f"{url}/v3/maintenance/alarm", body), context=context, timeout=10) as answer:
            return orjson.loads(answer.read()).get("alarms", [])  # type: ignore[no-any-return]

    for alarm in alarms("GET"):
        alarms("DEACTIVATE", **alarm)
    assert alarms("GET") == []


class Relay:
    """TCP to one port of loopback, which can be held: bytes wait, connections stay. So a server behind it falls behind."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def close(self) -> None:
        """End everything that goes through it."""
        self._open.set()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                self._open.wait()
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def second(cluster: Cluster) -> Iterator[tuple[str, Relay]]:
    """Another API server on the same etcd, as in a cluster of several control-plane nodes, with a relay between the two."""
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in command(cluster, SERVER).argv[1:])
    relay = Relay(int(flags["etcd-servers"].rpartition(":")[2]))
    port = start.free_ports(()).server
    changed = {
        "secure-port": str(port),
        "etcd-servers": f"https://127.0.0.1:{relay.port}",
        "audit-log-path": str(cluster.folder / "second-audit.log"),
    }
    argv = command(cluster, SERVER, **changed).argv
    begin(cluster, Command(SECOND, argv, {}))
    url = f"https://127.0.0.1:{port}"
    try:
        w.wait_for("the second API server", lambda: _ready(cluster, url))
        yield url, relay
    finally:
        processes.stop(cluster.folder, [SECOND])
        relay.close()


def asked(cluster: Cluster, url: str, path: str) -> tuple[int, dict[str, Any]]:
    """A GET of another server of the cluster, as the administrator; (0, {}) while nobody answers."""
    config = cluster.folder / "second.kubeconfig"
    config.touch(mode=0o600)
    config.write_text(cluster.kubeconfig.read_text().replace(cluster.server, url))
    try:
        return http.request(config, "GET", path)
    except ClusterError:
        return 0, {}


def _ready(cluster: Cluster, url: str) -> bool:
    return asked(cluster, url, "/readyz")[0] == 200
