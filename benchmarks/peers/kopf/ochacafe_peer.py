"""Ochacafe's operator as a kopf program, for `make bench`: asynchronous handlers, Deployments known by an index, one
pooled HTTP session, server-side apply only where a digest differs, no events posted, no finalizer needed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml

GROUP, VERSION = "ochacafe.oracle.com", "v1alpha1"
APPLIED, PART = "example.com/applied", "example.com/part-of"
SESSION: dict[str, Any] = {}


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    """No events, no log lines on resources, the tightest time-outs that the documentation names."""
    settings.posting.enabled = False
    settings.queueing.worker_limit = None
    settings.watching.server_timeout = 300
    server, token, context = credentials(Path(os.environ["KUBECONFIG"]))
    connector = aiohttp.TCPConnector(limit=16, ssl=context)
    headers = {"User-Agent": "kopf-peer", "Authorization": f"Bearer {token}"}
    SESSION.update(server=server, http=aiohttp.ClientSession(connector=connector, headers=headers))


def credentials(kubeconfig: Path) -> tuple[str, str, ssl.SSLContext]:
    """Where the API server is, a token, and whom to trust."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return cluster["server"], user["token"], ssl.create_default_context(cadata=authority)


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    """Close what `start` opened."""
    await SESSION["http"].close()


@kopf.index("apps", "v1", "deployments", labels={PART: "ochacafe"})
async def present(namespace: str, name: str, annotations: Any, **_: Any) -> dict[tuple[str, str], str]:
    """What was applied to each Deployment of ours."""
    return {(namespace, name): annotations.get(APPLIED, "")}


@kopf.on.create(GROUP, VERSION, "ochacaves")
@kopf.on.update(GROUP, VERSION, "ochacaves", field="spec")
@kopf.on.resume(GROUP, VERSION, "ochacaves")
async def reconcile(
    name: str, namespace: str, uid: str, spec: Any, status: Any, meta: Any, patch: kopf.Patch, present: Any, **_: Any
) -> None:
    """One apply if the Deployment differs, and a status if it differs."""
    body = deployment(name, namespace, uid, spec)
    digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()[:32]
    if digest not in present.get((namespace, name), ()):
        body["metadata"]["annotations"] = {APPLIED: digest}
        url = f"{SESSION['server']}/apis/apps/v1/namespaces/{namespace}/deployments/{name}?fieldManager=kopf-peer&force=true"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        async with SESSION["http"].patch(url, data=json.dumps(body), headers=headers) as answer:
            answer.raise_for_status()
            await answer.read()
    wanted = {"nodes": [], "observedGeneration": meta["generation"]}
    if {key: status.get(key) for key in wanted} != wanted:
        patch.status.update(wanted)


def deployment(name: str, namespace: str, uid: str, spec: Any) -> dict[str, Any]:
    """The Deployment of one café."""
    chosen = {"example.com/cafe": name}
    port = {"containerPort": 80, "protocol": "TCP"}
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Ochacafe", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": chosen | {PART: "ochacafe"},
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": spec["size"],
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": {"labels": chosen},
                "spec": {"containers": [{"name": "cafe", "image": spec["image"], "ports": [port]}]},
            },
        },
    }
