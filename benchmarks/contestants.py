"""Who is measured: how each program is built and started, and by which User-Agent its requests are told."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers"


@dataclass(frozen=True)
class Contestant:
    """An operator of Ochacafe, as a process. `command` ends with the namespace."""

    name: str
    agents: tuple[str, ...]
    command: tuple[str, ...]
    app: str = "ochacafe.app:app"
    """The app whose CRD is installed, and which the bare program of the same run writes for."""
    watches_pods: bool = False

    def start(self, kubeconfig: Path, namespace: str) -> subprocess.Popen[bytes]:
        """Start it on a namespace; its log is dropped."""
        return subprocess.Popen(
            [*self.command, namespace],
            cwd=HERE.parent,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "HANEI_LOG": "warning"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _hanei(app: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "hanei.cli.main", "run", "--app", app, "--http-port", "-1", "-n")


HANEI = Contestant("hanei", ("hanei/",), _hanei("ochacafe.app:app"), watches_pods=True)
WITH_RECORDS = Contestant(
    "hanei with records", ("hanei/",), _hanei("benchmarks.kept:app"), app="benchmarks.kept:app", watches_pods=True
)
CONTROLLER_RUNTIME = Contestant(
    "controller-runtime", ("controller-runtime-peer",), (str(PEERS / "controller_runtime" / "build" / "peer"),)
)
KOPF = Contestant(
    "kopf",
    ("kopf/", "kopf-peer"),
    (
        str(PEERS / "kopf" / ".venv" / "bin" / "kopf"),
        *("run", "--quiet", "--standalone", str(PEERS / "kopf" / "ochacafe_peer.py"), "-n"),
    ),
)
ALL = (HANEI, CONTROLLER_RUNTIME, KOPF, WITH_RECORDS)


def build() -> None:
    """Make the peers: a Go program, and kopf in an environment of its own. Done once, kept beside their sources."""
    go = PEERS / "controller_runtime"
    subprocess.run(["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "build/peer", "."], cwd=go, check=True)
    kopf = PEERS / "kopf"
    if not (kopf / ".venv" / "bin" / "kopf").exists():
        subprocess.run([sys.executable, "-m", "venv", str(kopf / ".venv")], check=True)
        pip = [str(kopf / ".venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "-r", str(kopf / "requirements.txt")], check=True)
