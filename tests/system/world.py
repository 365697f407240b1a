"""What a system test sees: a namespace of its own, an operator with exactly the rights that `hanei rbac` prints, and a user.

The operator is a process of its own (`hanei run`), with a service account's token; the user is the cluster's
administrator. Nodes are simulated: pods become Ready, nothing runs in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from autolock.app import app as _autolock
from hanei import App
from hanei import kinds as _kinds
from hanei.crd.definition import definition
from hanei.kinds import Kind
from hanei.operator.rights import manifests
from ochacafe.app import app as _ochacafe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from hanei.cluster import Cluster

T = TypeVar("T")
PATIENCE = 150.0
"""Seconds for the cluster to do what it must; a bound on a broken test, not a measurement."""
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
autolock, ochacafe, kinds = _autolock, _ochacafe, _kinds
ROOT = Path(__file__).parents[2]


def wait_for(what: str, check: Callable[[], T | None], patience: float = PATIENCE) -> T:
    """The first true value of `check`; fails with `what` after `patience` seconds."""
    limit = time.monotonic() + patience
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > limit:
            raise AssertionError(f"not within {patience:.0f} s: {what}")
        time.sleep(0.05)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a plain test, in a thread of its own: pytest-asyncio keeps the loop of this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@dataclass(slots=True)
class World:
    """One namespace and what a user does in it."""

    cluster: Cluster
    namespace: str

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """One request as the administrator."""
        return self.cluster.request(method, path, body, content_type)

    def get(self, kind: Kind, name: str) -> dict[str, Any]:
        """An object that must be there."""
        status, found = self.request("GET", kind.path(self.namespace if kind.namespaced else None, name))
        assert status == 200, found
        return found

    def find(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """An object, or None."""
        status, found = self.request("GET", kind.path(self.namespace, name))
        return found if status == 200 else None

    def list(self, kind: Kind, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind in the namespace."""
        status, found = self.request(
            "GET", kind.path(self.namespace) + (f"?labelSelector={selector}" if selector else "")
        )
        assert status == 200, found
        items: list[dict[str, Any]] = found["items"]
        return items

    def create(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object."""
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        status, found = self.request("POST", kind.path(self.namespace if kind.namespaced else None), full)
        assert status in (200, 201), found
        return found

    def patch(
        self,
        kind: Kind,
        name: str,
        patch: Any,
        content_type: str = MERGE,
        subresource: str = "",
        manager: str = "a-user",
    ) -> dict[str, Any]:
        """Change an object as `manager`."""
        path = (
            kind.path(self.namespace, name, subresource)
            + f"?fieldManager={manager}"
            + ("&force=true" if content_type == APPLY else "")
        )
        status, found = self.request("PATCH", path, patch, content_type)
        assert status == 200, found
        return found

    def delete(self, kind: Kind, name: str) -> None:
        """Delete an object."""
        status, found = self.request("DELETE", kind.path(self.namespace, name))
        assert status in (200, 202), found

    def resource(self, app: App[Any], name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Make a resource of an app."""
        return self.create(app.kind, {"metadata": {"name": name}, "spec": spec})

    def ready(self, app: App[Any], name: str) -> dict[str, Any]:
        """The resource, once it says Ready for its newest generation."""

        def check() -> dict[str, Any] | None:
            found = self.get(app.kind, name)
            return found if condition(found, "Ready").get("status") == "True" and current(found) else None

        try:
            return wait_for(f"{app.kind.kind} {name} Ready", check)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps(self.get(app.kind, name).get('status'), indent=1)}") from None

    def condition_becomes(self, app: App[Any], name: str, kind: str, reason: str) -> dict[str, Any]:
        """The condition, once it has this reason."""

        def check() -> dict[str, Any] | None:
            found = condition(self.get(app.kind, name), kind)
            return found if found.get("reason") == reason else None

        return wait_for(f"{app.kind.kind} {name}: {kind} with reason {reason}", check)

    def pods(self, component: str, instance: str) -> dict[str, str]:
        """uid → name of a component's pods that stay."""
        selector = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={instance}"
        found = self.list(kinds.POD, selector)
        return {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    def workloads(self, instance: str) -> dict[str, dict[str, Any]]:
        """component → its workload."""
        selector = f"app.kubernetes.io/instance={instance}"
        found = [*self.list(kinds.DEPLOYMENT, selector), *self.list(kinds.STATEFUL_SET, selector)]
        return {item["metadata"]["labels"]["app.kubernetes.io/component"]: item for item in found}


def condition(resource: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition of a resource; {} without it."""
    return next((one for one in resource.get("status", {}).get("conditions", ()) if one["type"] == kind), {})


def current(resource: dict[str, Any]) -> bool:
    """Whether the status is about the newest generation."""
    return bool(resource.get("status", {}).get("observedGeneration") == resource["metadata"]["generation"])


def install(cluster: Cluster, *apps: App[Any]) -> None:
    """Apply the CRDs, and wait until they are served."""
    for app in apps:
        body = definition(app)
        name = body["metadata"]["name"]
        path = f"{kinds.CRD.path(None, name)}?fieldManager=test&force=true"
        status, found = cluster.request("PATCH", path, body, APPLY)
        assert status in (200, 201), found
        wait_for(f"{name} served", lambda app=app: cluster.request("GET", app.kind.path(None))[0] == 200)  # type: ignore[misc]


def grant(
    cluster: Cluster,
    apps: list[App[Any]],
    namespace: str,
    folder: Path,
    *,
    secrets: tuple[str, ...] = (),
    changed: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda rule: rule,
) -> Path:
    """Apply exactly what `hanei rbac` prints for a namespace; a kubeconfig with the account's token.

    `changed` gives what becomes of each rule, None for nothing, where rights are to be missing.
    """
    for item in manifests(apps, namespace=namespace, account="hanei-operator", cluster_wide=False, secrets=secrets):
        if "rules" in item:
            item = {**item, "rules": [found for rule in item["rules"] if (found := changed(rule)) is not None]}
        apply_object(cluster, item)
    return account_kubeconfig(cluster, namespace, "hanei-operator", folder)


def apply_object(cluster: Cluster, item: dict[str, Any]) -> None:
    """`kubectl apply` of one object of the rights."""
    group, _, version = item["apiVersion"].rpartition("/")
    plural = f"{item['kind'].lower().removesuffix('y')}{'ies' if item['kind'].endswith('y') else 's'}"
    kind = Kind(group, version, item["kind"], plural, namespaced="namespace" in item["metadata"])
    path = kind.path(item["metadata"].get("namespace"), item["metadata"]["name"])
    status, found = cluster.request("PATCH", f"{path}?fieldManager=test&force=true", item, APPLY)
    assert status in (200, 201), found


def account_kubeconfig(cluster: Cluster, namespace: str, account: str, folder: Path, seconds: int = 3600) -> Path:
    """A kubeconfig that logs in as a service account."""
    path = kinds.SERVICE_ACCOUNT.path(namespace, account, "token")
    status, found = cluster.request(
        "POST",
        path,
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}},
    )
    assert status == 201, found
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": account, "user": {"token": found["status"]["token"]}}]
    config["contexts"] = [
        {
            "name": account,
            "context": {"cluster": config["clusters"][0]["name"], "user": account, "namespace": namespace},
        }
    ]
    config["current-context"] = account
    target = folder / f"{namespace}-{account}.kubeconfig"
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o600)
    return target


@dataclass(slots=True)
class Operator:
    """`hanei run`, as a process."""

    kubeconfig: Path
    log: Path
    apps: tuple[str, ...] = ("autolock.app:app", "ochacafe.app:app")
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Start it; returns at once."""
        named = [part for app in self.apps for part in ("--app", app)]
        command = [
            sys.executable,
            "-m",
            "hanei.cli.main",
            "run",
            *named,
            "--kubeconfig",
            str(self.kubeconfig),
            "--http-port",
            "0",
            *self.arguments,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "HANEI_LOG": "info,json"}, cwd=ROOT
            )

    def stop(self, number: int = signal.SIGTERM, patience: float = 10.0) -> int:
        """End it; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process = None

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        found = []
        for line in self.log.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                found.append({"event": line})
        return found


@contextmanager
def running(operator: Operator) -> Iterator[Operator]:
    """The operator while the block runs; its log is shown if the block fails."""
    operator.start()
    try:
        yield operator
    except BaseException:
        print(operator.log.read_text()[-8000:])  # noqa: T201 - pytest shows it with the failure
        raise
    finally:
        if operator.process is not None:
            operator.stop()


def audited(cluster: Cluster, agent: str = "hanei/", since: int = 0) -> list[dict[str, Any]]:
    """Requests in the API server's audit log of a user agent, from a line number on."""
    assert cluster.audit_log is not None
    with cluster.audit_log.open() as lines:
        found = [json.loads(line) for number, line in enumerate(lines) if number >= since and line.endswith("\n")]
    return [one for one in found if one.get("userAgent", "").startswith(agent)]


def audit_mark(cluster: Cluster) -> int:
    """The present end of the audit log, as a line number."""
    assert cluster.audit_log is not None
    with cluster.audit_log.open() as lines:
        return sum(1 for _ in lines)


def writes(requests: list[dict[str, Any]], namespace: str = "") -> list[tuple[str, str, str]]:
    """(verb, resource/subresource, name) of writes that are not of the Lease."""
    result = []
    for one in requests:
        ref = one.get("objectRef", {})
        if (
            one["verb"] in ("get", "list", "watch")
            or ref.get("resource") == "leases"
            or (namespace and ref.get("namespace") != namespace)
        ):
            continue
        sub = f"/{ref['subresource']}" if ref.get("subresource") else ""
        result.append((one["verb"], f"{ref.get('resource')}{sub}", ref.get("name", "")))
    return result
