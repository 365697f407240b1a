"""Many objects: bounded memory, as few requests as there is work. `tests/data/faults.tsv`; in full in `make soak`.

On etcd and an API server alone; the numbers of requests are exact, those of memory are limits.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hanei import kinds
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.render import labels
from tests.fault import servers
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SOAK = os.environ.get("HANEI_SOAK") == "1"
PODS = 20_000 if SOAK else 3_000
CAFES = 5_000 if SOAK else 300
APP = "ochacafe.app:app"
EMPTY, PER_CAFE, PER_POD, ASIDE = 75.0, 12 / 1024, 4 / 1024, 24.0
"""MiB: without any resource; for each with its Deployment; for each pod; and what a list in pages may take on top."""


def many(world: w.World, work: Callable[[Client, int], Awaitable[Any]], size: int) -> None:
    """`size` requests, 16 at once."""

    async def run() -> None:
        async with Client(load(world.cluster.kubeconfig), user_agent="test") as client:
            gate = asyncio.Semaphore(16)

            async def one(number: int) -> None:
                async with gate:
                    await work(client, number)

            await asyncio.gather(*map(one, range(size)))

    w.run_async(run())


def memory(operator: w.Operator) -> tuple[float, float]:
    """Resident now and at most so far, MiB, as the kernel tells."""
    assert operator.process is not None
    text = Path(f"/proc/{operator.process.pid}/status").read_text()
    found = {key: int(value) / 1024 for key, value in re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", text)}
    return found["VmRSS"], found["VmHWM"]


def test_f10_a_list_of_many_pods_is_read_in_pages_and_takes_little_memory(tmp_path: Path) -> None:
    """Each pod is 4 KB on the wire. What is kept is small, and reading them takes a few pages more, not all of them."""
    with servers.servers(w.ochacafe) as world:
        own = {labels.MANAGED_BY: "hanei", labels.APP: labels.app_label(w.ochacafe.kind), labels.INSTANCE: "c"}
        status, answer = world.request(
            "POST", kinds.SERVICE_ACCOUNT.path(world.namespace), {"metadata": {"name": "default"}}
        )
        assert status in (201, 409), answer

        async def pod(client: Client, number: int) -> None:
            spec = {"containers": [{"name": "c", "image": "nginx", "env": [{"name": "A", "value": "x" * 2500}]}]}
            metadata = {"name": f"pod-{number}", "labels": own}
            await client.create(
                kinds.POD, world.namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            )

        many(world, pod, PODS)
        mark = w.audit_mark(world.cluster)
        with servers.operated(world, w.ochacafe, APP, tmp_path) as operator:
            world.resource(w.ochacafe, "other", {"size": 1, "image": "nginx"})
            w.wait_for("the operator to work", lambda: world.find(kinds.DEPLOYMENT, "other"))
            resident, peak = memory(operator)
            listed = [
                one["requestURI"]
                for one in w.audited(world.cluster, since=mark)
                if one["verb"] == "list" and one["objectRef"]["resource"] == "pods"
            ]
        print(f"{PODS} pods: {resident:.0f} MiB, {peak:.0f} MiB at most, {len(listed)} pages")  # noqa: T201 - for `pytest -rP`
        assert len(listed) == PODS // 500 + (PODS % 500 > 0)
        assert all("limit=500" in uri for uri in listed)
        assert peak < EMPTY + PODS * PER_POD + ASIDE
        assert peak - resident < ASIDE


def test_f78_many_resources_start_cold_and_change_at_once(tmp_path: Path) -> None:
    """Two writes for each and for each change, no single read, and the memory that was promised."""
    with servers.servers(w.ochacafe) as world:

        async def cafe(client: Client, number: int) -> None:
            body = {"apiVersion": w.ochacafe.kind.api_version, "kind": "Ochacafe", "metadata": {"name": f"c{number}"}}
            await client.create(w.ochacafe.kind, world.namespace, {**body, "spec": {"size": 1, "image": "one"}})

        async def change(client: Client, number: int) -> None:
            await client.merge_patch(w.ochacafe.kind, world.namespace, f"c{number}", {"spec": {"image": "two"}})

        many(world, cafe, CAFES)
        mark = w.audit_mark(world.cluster)
        with servers.operated(world, w.ochacafe, APP, tmp_path) as operator:
            settled(world, 1)
            assert counted(world, mark) == {"deployments": CAFES, "ochacaves/status": CAFES}
            mark = w.audit_mark(world.cluster)
            many(world, change, CAFES)
            settled(world, 2)
            assert counted(world, mark) == {"deployments": CAFES, "ochacaves/status": CAFES}
            resident, peak = memory(operator)
        print(f"{CAFES} resources: {resident:.0f} MiB, {peak:.0f} MiB at most")  # noqa: T201 - for `pytest -rP`
        assert resident < EMPTY + CAFES * PER_CAFE
        requests = w.audited(world.cluster)
        assert [
            one["requestURI"] for one in requests if one["verb"] == "get" and "ochacaves" in one["requestURI"]
        ] == []
        assert [one["requestURI"] for one in requests if one.get("responseStatus", {}).get("code", 200) >= 400] == []


def settled(world: w.World, generation: int) -> None:
    """Wait until each status speaks of this generation, and a moment more for writes that should not be."""

    def check() -> bool:
        items = world.list(w.ochacafe.kind)
        return all(item.get("status", {}).get("observedGeneration", 0) >= generation for item in items)

    w.wait_for(f"{CAFES} statuses", check, patience=max(60.0, CAFES / 10))
    last, now = -1, w.audit_mark(world.cluster)
    while now != last:
        time.sleep(1.5)
        last, now = now, w.audit_mark(world.cluster)


def counted(world: w.World, since: int) -> Counter[str]:
    """Writes of the operator by resource."""
    return Counter(resource for _, resource, _ in w.writes(w.audited(world.cluster, since=since), world.namespace))
