"""The command lines of a cluster's programs, and the small files they read: pure.

`Layout` says where everything of one cluster lies and on which ports it listens; `commands` yields what to start, in
order. Nothing here starts or writes anything: `hanei.cluster.start` does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SERVICE_RANGE = "10.96.0.0/16"

STOP_ORDER = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
"""Who writes goes before whom it writes to."""

_COMPONENT_USERS = ["system:kube-controller-manager", "system:kube-scheduler", "system:kwok", "system:apiserver"]


@dataclass(frozen=True, slots=True)
class Ports:
    """All on 127.0.0.1."""

    server: int
    etcd: int
    etcd_peer: int

    def all(self) -> tuple[int, ...]:
        return (self.server, self.etcd, self.etcd_peer)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one cluster."""

    folder: Path
    ports: Ports

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports.server}"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.json"

    @property
    def stages(self) -> Path:
        return self.folder / "kwok.yaml"

    def kubeconfig(self, identity: str = "admin") -> Path:
        """The admin's is the one for people; each program has its own."""
        return self.folder / ("kubeconfig" if identity == "admin" else f"pki/{identity}.kubeconfig")


@dataclass(frozen=True, slots=True)
class Command:
    """One program to start: `name` is its pid file's and its log's name too."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]


def etcd(layout: Layout, program: Path) -> Command:
    client = f"https://127.0.0.1:{layout.ports.etcd}"
    peer = f"https://127.0.0.1:{layout.ports.etcd_peer}"
    pki = layout.pki
    flags = {
        "data-dir": layout.folder / "etcd",
        "name": "hanei",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"hanei={peer}",
        "cert-file": pki / "etcd.crt",
        "key-file": pki / "etcd.key",
        "trusted-ca-file": pki / "ca.crt",
        "client-cert-auth": "true",
        "peer-cert-file": pki / "etcd.crt",
        "peer-key-file": pki / "etcd.key",
        "peer-trusted-ca-file": pki / "ca.crt",
        "peer-client-cert-auth": "true",
        # A test cluster may lose its data with the machine; without waiting for the disk a write takes a third.
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return _command("etcd", program, flags)


def apiserver(layout: Layout, program: Path) -> Command:
    pki = layout.pki
    flags = {
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": layout.ports.server,
        # The Service `kubernetes` may not point at a loopback address, so nobody keeps its endpoints.
        "endpoint-reconciler-type": "none",
        "etcd-servers": f"https://127.0.0.1:{layout.ports.etcd}",
        "etcd-cafile": pki / "ca.crt",
        "etcd-certfile": pki / "apiserver.crt",
        "etcd-keyfile": pki / "apiserver.key",
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "cert-dir": pki,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": pki / "service-account.pub",
        "service-account-signing-key-file": pki / "service-account.key",
        "service-cluster-ip-range": SERVICE_RANGE,
        "authorization-mode": "RBAC",
        "anonymous-auth": "false",
        "allow-privileged": "true",
        "profiling": "false",
        "audit-policy-file": layout.audit_policy,
        "audit-log-path": layout.audit_log,
        # Blocking: a request's line is in the file when its answer arrives, so tests can count without waiting.
        "audit-log-mode": "blocking",
        "audit-log-maxsize": 2000,
    }
    return _command("kube-apiserver", program, flags)


def controller_manager(layout: Layout, program: Path) -> Command:
    flags = {
        "kubeconfig": layout.kubeconfig("kube-controller-manager"),
        "secure-port": 0,
        "leader-elect": "false",
        "use-service-account-credentials": "false",
        "service-account-private-key-file": layout.pki / "service-account.key",
        "root-ca-file": layout.pki / "ca.crt",
        "controllers": ",".join(("*", *(f"-{name}" for name in _UNUSED_CONTROLLERS))),
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
        "concurrent-deployment-syncs": 10,
        "concurrent-replicaset-syncs": 10,
        "concurrent-statefulset-syncs": 10,
        "concurrent-gc-syncs": 20,
        "node-monitor-period": "1s",
        "pvclaimbinder-sync-period": "2s",
        "profiling": "false",
    }
    return _command("kube-controller-manager", program, flags)


_UNUSED_CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "device-taint-eviction-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "podcertificaterequest-cleaner-controller",
    "podgroup-protection-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "service-cidr-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "volumeattributesclass-protection-controller",
)
"""Nothing in a simulated cluster is theirs to do; without them the manager starts faster and holds less."""


def scheduler(layout: Layout, program: Path) -> Command:
    flags = {
        "kubeconfig": layout.kubeconfig("kube-scheduler"),
        "secure-port": 0,
        "leader-elect": "false",
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
        "profiling": "false",
    }
    return _command("kube-scheduler", program, flags)


def kwok(layout: Layout, program: Path) -> Command:
    flags = {
        "kubeconfig": layout.kubeconfig("kwok"),
        "config": layout.stages,
        "manage-all-nodes": "true",
        "node-lease-duration-seconds": 40,
    }
    # KWOK also reads a file in the user's home; a folder without one keeps it from that.
    return _command("kwok", program, flags, {"KWOK_WORKDIR": str(layout.folder / "kwok")})


def audit_policy() -> str:
    """Every write as one line, and the reads of everybody but the cluster's own programs."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": _COMPONENT_USERS, "verbs": ["get", "list", "watch"]},
            {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*"]},
            {"level": "Metadata"},
        ],
    }
    return json.dumps(policy, indent=1)


def kubeconfig(server: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """A kubeconfig that needs no other file; JSON, which is YAML too."""
    from base64 import b64encode

    def encoded(data: bytes) -> str:
        return b64encode(data).decode()

    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hanei",
        "clusters": [
            {"name": "hanei", "cluster": {"server": server, "certificate-authority-data": encoded(authority)}}
        ],
        "users": [
            {
                "name": "hanei",
                "user": {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)},
            }
        ],
        "contexts": [{"name": "hanei", "context": {"cluster": "hanei", "user": "hanei", "namespace": "default"}}],
    }
    return json.dumps(config, indent=1) + "\n"


def _command(
    name: str, program: Path, flags: Mapping[str, object], environ: Mapping[str, str] | None = None
) -> Command:
    return Command(name, (str(program), *(f"--{flag}={value}" for flag, value in flags.items())), environ or {})
