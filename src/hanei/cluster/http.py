"""Requests to an API server with the standard library alone, for start-up checks and test helpers.

Understands the kubeconfigs that people have on a test machine: client certificates, a token, a password-less CA. What
needs a program to be run (exec plugins) is left to `hanei.kube`; asking it here is a ClusterError that says so.
"""

from __future__ import annotations

import base64
import functools
import json
import ssl
import tempfile
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from hanei.errors import ClusterError

_TIMEOUT = 30.0
"""Seconds without a byte after which a request has failed."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a kubeconfig points and how it proves who asks."""

    server: str
    tls: ssl.SSLContext | None
    token: str = ""


def request(
    kubeconfig: Path, method: str, path: str, body: Any = None, content_type: str = "application/json"
) -> tuple[int, dict[str, Any]]:
    """See `hanei.cluster.model.Cluster.request`."""
    found = endpoint(kubeconfig)
    headers = {"Accept": "application/json", "User-Agent": "hanei-cluster"}
    payload = None
    if body is not None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers["Content-Type"] = content_type
    if found.token:
        headers["Authorization"] = f"Bearer {found.token}"
    connection = _connection(found)
    try:
        connection.request(method, urlsplit(found.server).path.rstrip("/") + path, payload, headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, HTTPException) as error:
        raise ClusterError(f"{found.server}: no answer: {error}") from error
    finally:
        connection.close()
    return answer.status, _decoded(content)


def endpoint(kubeconfig: Path) -> Endpoint:
    """Read the current context of a kubeconfig; ClusterError names file and field."""
    try:
        modified = kubeconfig.stat().st_mtime_ns
    except OSError as error:
        raise ClusterError(f"{kubeconfig}: cannot be read: {error.strerror}") from error
    return _endpoint(kubeconfig, modified)


@functools.lru_cache(maxsize=16)
def _endpoint(kubeconfig: Path, modified: int) -> Endpoint:
    """`modified` makes a rewritten file a new entry: making the TLS context costs more than the request."""
    try:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        server = str(cluster["server"])
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise ClusterError(f"{kubeconfig}: not a kubeconfig with a current context: {error!r}") from error
    token = user.get("token", "")
    if "tokenFile" in user:
        token = (kubeconfig.parent / user["tokenFile"]).read_text().strip()
    if not token and not ("client-certificate" in user or "client-certificate-data" in user):
        raise ClusterError(
            f"{kubeconfig}: the current context's user has neither client certificate nor token",
            hint="give a kubeconfig with one of them; exec plugins are not run here",
        )
    return Endpoint(server, _tls(kubeconfig.parent, cluster, user) if server.startswith("https") else None, token)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _material(folder, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _material(folder, user, "client-certificate"), _material(folder, user, "client-key")
    if certificate and key:
        # The ssl module loads a key from a file only; this one is ours alone and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _material(folder: Path, entry: dict[str, Any], field: str) -> bytes:
    """What stands in ``<field>-data``, or in the file that ``<field>`` names."""
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data)
    return (folder / Path(entry[field]).expanduser()).read_bytes() if entry.get(field) else b""


def _connection(found: Endpoint) -> HTTPConnection:
    address = urlsplit(found.server)
    host = address.hostname or ""
    if found.tls is None:
        return HTTPConnection(host, address.port, timeout=_TIMEOUT)
    return HTTPSConnection(host, address.port, timeout=_TIMEOUT, context=found.tls)


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {"text": content.decode(errors="replace")}
    return value if isinstance(value, dict) else {"text": value}
