"""What a measurement stands on: a cluster of etcd and API server alone, N Ochacafes, and two outside views of a program:
the API server's audit log and /proc. Nothing here asks the API server while something is measured."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.system.world import account_kubeconfig

from hanei import kinds
from hanei.cluster import Cluster, down, up
from hanei.crd.definition import definition
from hanei.kube.client import Client
from hanei.kube.config import load

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from hanei import App

NAME, NAMESPACE, CONNECTIONS = "bench", "bench", 16
LIMIT = 900.0
"""Seconds after which something that does not come is given up."""


@dataclass
class Stage:
    """One fresh cluster with `size` resources, for one contestant."""

    cluster: Cluster
    client: Client
    kubeconfig: Path
    """Logs in with a token, as programs in a cluster do."""
    app: App[Any]
    made: list[dict[str, Any]] = field(default_factory=list)

    async def many(self, work: Callable[[int], Awaitable[Any]], size: int) -> list[Any]:
        """`size` calls, `CONNECTIONS` at once."""
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(number: int) -> Any:
            async with gate:
                return await work(number)

        return await asyncio.gather(*map(one, range(size)))

    async def resources(self, size: int) -> None:
        """Create them."""
        raw = await self.many(
            lambda number: self.client.create(self.app.kind, NAMESPACE, self._body(f"cafe-{number}")), size
        )
        self.made = [orjson.loads(one) for one in raw]

    def _body(self, name: str) -> dict[str, Any]:
        kind = self.app.kind
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": {"size": 2, "image": "nginx"},
        }

    async def edit(self, number: int, image: str) -> None:
        """Change one resource's image."""
        await self.client.merge_patch(self.app.kind, NAMESPACE, f"cafe-{number}", {"spec": {"image": image}})


@contextlib.asynccontextmanager
async def stage(app: str) -> AsyncIterator[Stage]:
    """A cluster of its own, with the app's CRD served and a namespace."""
    module, _, attribute = app.partition(":")
    chosen: App[Any] = getattr(importlib.import_module(module), attribute)
    cluster = await asyncio.to_thread(up, NAME, node="none")
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with Client(load(cluster.kubeconfig), user_agent="stage") as client:
                await client.apply(
                    kinds.CRD, None, definition(chosen)["metadata"]["name"], definition(chosen), force=True
                )
                for kind, namespace, body in _ground():
                    await client.apply(kind, namespace, body["metadata"]["name"], body, force=True)
                await _served(client, chosen)
                token = await asyncio.to_thread(account_kubeconfig, cluster, NAMESPACE, "default", Path(folder))
                yield Stage(cluster, client, token, chosen)
    finally:
        await asyncio.to_thread(down, NAME)


def _ground() -> Iterable[tuple[Any, str | None, dict[str, Any]]]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}
    binding = kinds.Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False)
    yield kinds.NAMESPACE, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield (
        kinds.SERVICE_ACCOUNT,
        NAMESPACE,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}},
    )
    yield (
        binding,
        None,
        {"apiVersion": binding.api_version, "kind": binding.kind, "metadata": {"name": "bench"}, "roleRef": role, "subjects": [subject]},
    )  # fmt: skip


async def _served(client: Client, app: App[Any]) -> None:
    limit = time.monotonic() + 30
    while True:
        try:
            async for _page in client.list_pages(app.kind, NAMESPACE, limit=1):
                return
        except Exception:
            if time.monotonic() > limit:
                raise
            await asyncio.sleep(0.05)


class Audit:
    """The audit log from now on, of some programs; read as it grows."""

    def __init__(self, cluster: Cluster, agents: tuple[str, ...]) -> None:
        assert cluster.audit_log is not None
        self._path, self._agents = cluster.audit_log, agents
        self._offset = self._path.stat().st_size
        self.seen: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All their requests so far, in order, the Lease's apart."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if not any(f'"userAgent":"{agent}'.encode() in line for agent in self._agents):
                continue
            one = json.loads(line)
            if one.get("objectRef", {}).get("resource") not in ("leases", "events", None):
                self.seen.append(one)
        return self.seen

    def writes(self) -> list[dict[str, Any]]:
        """Those that change something."""
        return [one for one in self.read() if one["verb"] not in ("get", "list", "watch")]

    def verbs(self) -> Counter[str]:
        """How many of each verb; `write` for all that change something."""
        reads = ("get", "list", "watch")
        return Counter(one["verb"] if one["verb"] in reads else "write" for one in self.read())

    async def until(self, what: str, check: Callable[[], bool], limit: float = LIMIT) -> None:
        """Wait; the log is read ten times a second."""
        end = time.monotonic() + limit
        while not check():
            if time.monotonic() > end:
                raise RuntimeError(f"not within {limit:.0f} s: {what}")
            await asyncio.sleep(0.1)

    async def still(self, seconds: float = 1.0) -> None:
        """Wait until there has been nothing new for a while."""
        last, since = len(self.read()), time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.1)
            if (now := len(self.read())) != last:
                last, since = now, time.monotonic()


def when(one: dict[str, Any]) -> float:
    """When a request was received, by the server's clock."""
    return datetime.fromisoformat(one["requestReceivedTimestamp"]).timestamp()


def done(one: dict[str, Any]) -> float:
    """When it was answered."""
    return datetime.fromisoformat(one["stageTimestamp"]).timestamp()


def target(one: dict[str, Any]) -> tuple[str, str]:
    """(resource/subresource, name)."""
    ref = one["objectRef"]
    return "/".join(part for part in (ref["resource"], ref.get("subresource")) if part), ref.get("name", "")


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU so far, of all threads and of children that have ended."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[bytes]) -> float:
    """Resident memory, MiB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it, by its pid."""
    process.terminate()
    try:
        process.wait(15)
    except Exception:
        process.kill()
        process.wait()
        raise
