"""Where the API server is and who we are there: kubeconfig files or the pod's own service account.

Called once at the start (by the CLI or a test), before there is a loop: it reads files and blocks. Its result is a
frozen `Connection`; `hanei.kube.auth` turns the login into headers, `hanei.kube.tls` into a TLS context. What it never
does: talk to the server, run a plugin, or keep anything between calls.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanei.errors import ConfigError
from hanei.kube.kubeconfig import Entry, Kubeconfig, merged

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts the token, CA and namespace of a pod's service account."""

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

Material = bytes | Path
"""PEM bytes from the kubeconfig itself, or a file that is read when needed, because it may rotate."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server proves who it is. Without a CA the system's are used."""

    ca: Material | None = None
    insecure: bool = False
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A credential plugin (KEP-541): a program that prints an ExecCredential."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = EXEC_VERSIONS[0]
    install_hint: str = ""
    interactive: bool = False
    cluster: Mapping[str, Any] | None = None
    """What the plugin is told about the cluster; None unless it asked (``provideClusterInfo``)."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are. Several parts may be set: a client certificate goes along with any of the others."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: Material | None = field(default=None, repr=False)
    key: Material | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    """Headers that ask the server to act as somebody else."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and how to log in there. `source` says where this was found, for messages."""

    server: str
    namespace: str = "default"
    tls: Tls = Tls()
    credentials: Login = Login()
    source: str = "given by the caller"


def load(kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None) -> Connection:
    """The connection that a user means, found in this order: `kubeconfig`, $KUBECONFIG (several files merged as
    kubectl does), ~/.kube/config, the pod's service account.

    `context` and `namespace` override what the files say. Raises ConfigError naming file and field.
    """
    if kubeconfig is not None:
        return _from_files([kubeconfig], context, namespace, must_exist=True)
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return _from_files(listed, context, namespace, must_exist=False)
    home = Path("~/.kube/config").expanduser()
    if home.exists():
        return _from_files([home], context, namespace, must_exist=True)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(os.environ, namespace=namespace)
    raise ConfigError(
        f"No cluster is configured: neither --kubeconfig nor $KUBECONFIG is set, and {home} does not exist.",
        hint="Name a file with --kubeconfig, or make a local cluster with `hanei cluster up`.",
    )


def in_cluster(environ: Mapping[str, str], *, root: Path = SERVICE_ACCOUNT, namespace: str | None = None) -> Connection:
    """The connection of a pod, from its environment and mounted service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("This is not a pod: KUBERNETES_SERVICE_HOST is not set.")
    for name in ("token", "ca.crt"):
        if not (root / name).exists():
            raise ConfigError(
                f"{root / name} does not exist, so this pod has no service account to log in with.",
                hint="Set serviceAccountName, and do not set automountServiceAccountToken: false.",
            )
    place = root / "namespace"
    own = place.read_text("utf-8").strip() if place.exists() else ""
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace or own or "default",
        tls=Tls(ca=root / "ca.crt"),
        credentials=Login(token_file=root / "token"),
        source="the pod's service account",
    )


def _from_files(paths: list[Path], context: str | None, namespace: str | None, *, must_exist: bool) -> Connection:
    """The connection that a context of these files names."""
    files = merged(paths, must_exist=must_exist)
    name = context or files.current_context
    if not name:
        raise ConfigError(
            f"{files.source}: current-context is not set",
            hint=f"Choose one with --context: {files.choices('contexts')}.",
        )
    chosen = files.entry("contexts", name, wanted_by="--context" if context else "current-context")
    cluster = files.entry("clusters", chosen.text("cluster", required=True), wanted_by=chosen.where("cluster"))
    user_name = chosen.text("user")
    user = files.entry("users", user_name, wanted_by=chosen.where("user")) if user_name else None
    tls = _tls(cluster)
    return Connection(
        server=_server(cluster),
        namespace=namespace or chosen.text("namespace") or "default",
        tls=tls,
        credentials=_login(user, cluster, tls) if user else Login(),
        source=f"file {_which(files, chosen)}, context {name}",
    )


def _which(files: Kubeconfig, chosen: Entry) -> str:
    return str(chosen.file) if len(files.paths) > 1 else files.source


def _server(cluster: Entry) -> str:
    server = cluster.text("server", required=True).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"{cluster.where('server')}: {server!r} is no URL", hint="It starts with https://.")
    if cluster.text("proxy-url"):
        raise ConfigError(f"{cluster.where('proxy-url')}: proxies are not supported")
    return server


def _tls(cluster: Entry) -> Tls:
    insecure = cluster.flag("insecure-skip-tls-verify")
    ca = _material(cluster, "certificate-authority")
    if insecure and ca is not None:
        raise ConfigError(
            f"{cluster.where('insecure-skip-tls-verify')}: a CA is given as well, and both cannot be meant",
            hint="Remove one of them.",
        )
    return Tls(ca=ca, insecure=insecure, server_name=cluster.text("tls-server-name") or None)


def _login(user: Entry, cluster: Entry, tls: Tls) -> Login:
    if user.value("auth-provider"):
        raise ConfigError(
            f"{user.where('auth-provider')}: Kubernetes removed these in 1.26",
            hint="Use the provider's exec plugin, as kubectl needs it too.",
        )
    certificate, key = _material(user, "client-certificate"), _material(user, "client-key")
    if (certificate is None) != (key is None):
        missing = "client-certificate" if certificate is None else "client-key"
        raise ConfigError(f"{user.where(missing)}: missing, while its counterpart is given")
    token_file = user.text("tokenFile")
    return Login(
        token=user.text("token"),
        token_file=user.path(token_file) if token_file else None,
        username=user.text("username"),
        password=user.text("password"),
        certificate=certificate,
        key=key,
        plugin=_plugin(user, cluster, tls) if user.value("exec") else None,
        impersonate=_impersonate(user),
    )


def _material(entry: Entry, name: str) -> Material | None:
    """`<name>-data` (base64) or the file `<name>`; the data wins, as in kubectl."""
    data = entry.text(f"{name}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{entry.where(f'{name}-data')}: not valid base64") from error
    file = entry.text(name)
    if not file:
        return None
    path = entry.path(file)
    if not path.exists():
        raise ConfigError(f"{entry.where(name)}: {path} does not exist")
    return path


def _impersonate(user: Entry) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    return tuple((name, value) for name, value in headers if value)


def _plugin(user: Entry, cluster: Entry, tls: Tls) -> ExecPlugin:
    spec = user.child("exec")
    version = spec.text("apiVersion", required=True)
    if version not in EXEC_VERSIONS:
        raise ConfigError(f"{spec.where('apiVersion')}: {version!r} is not supported", hint=f"Use {EXEC_VERSIONS[0]}.")
    mode = spec.text("interactiveMode") or "IfAvailable"
    if mode not in ("Never", "IfAvailable", "Always"):
        raise ConfigError(f"{spec.where('interactiveMode')}: {mode!r}", hint="Never, IfAvailable or Always.")
    command = spec.text("command", required=True)
    return ExecPlugin(
        # As kubectl: a bare name is looked up in PATH, a relative path starts at the kubeconfig.
        command=str(spec.path(command)) if os.sep in command else command,
        args=tuple(spec.texts("args")),
        env=tuple((item.text("name", required=True), item.text("value")) for item in spec.children("env")),
        api_version=version,
        install_hint=spec.text("installHint"),
        interactive=mode != "Never" and os.isatty(0),
        cluster=_cluster_info(cluster, tls) if spec.flag("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Entry, tls: Tls) -> dict[str, Any]:
    """What a plugin is told about the cluster (``spec.cluster`` of ExecCredential)."""
    info: dict[str, Any] = {"server": _server(cluster)}
    ca = tls.ca.read_bytes() if isinstance(tls.ca, Path) else tls.ca
    if ca is not None:
        info["certificate-authority-data"] = base64.b64encode(ca).decode()
    if tls.insecure:
        info["insecure-skip-tls-verify"] = True
    if tls.server_name:
        info["tls-server-name"] = tls.server_name
    for extension in cluster.children("extensions"):
        if extension.text("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.value("extension")
    return info
