"""`make bench`: how close the operator comes to the limit, as ratios within one run.

etcd and the API server alone (no controllers, no nodes), N Ochacafes. The limit is a bare aiohttp program that makes the
same two writes per resource (one apply of the same Deployment, one apply of a status) over 16 connections. Requests are
counted in the API server's audit log. Peers come with a later issue.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from hanei import kinds
from hanei.cluster import Cluster, down, up
from hanei.cluster.http import endpoint
from hanei.crd.definition import definition
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.render.render import own_of, render
from ochacafe.app import app

CONNECTIONS = 16
NAMESPACE = "bench"
WAIT = 600.0


def main() -> None:
    """Measure for each N, print one table, keep it as JSON."""
    sizes = [int(text) for text in os.environ.get("BENCH_N", "100,1000").split(",")]
    results: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
        "n": {},
    }
    for size in sizes:
        results["n"][size] = measure(size)
        show(size, results["n"][size])
    target = Path(__file__).parent / "results" / "latest.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")


def measure(size: int) -> dict[str, dict[str, float]]:
    """Bare program and operator, each on a fresh cluster."""
    return {"bare": on_fresh_cluster(bare, size), "hanei": on_fresh_cluster(operator, size)}


def on_fresh_cluster(work: Any, size: int) -> dict[str, float]:
    cluster = up("bench", node="none")
    try:
        found: dict[str, float] = asyncio.run(prepared(cluster, work, size))
        return found
    finally:
        down("bench")


async def prepared(cluster: Cluster, work: Any, size: int) -> dict[str, float]:
    """CRD, namespace and resources first; then the measured work."""
    async with Client(load(cluster.kubeconfig), user_agent="bench") as client:
        await client.apply(kinds.CRD, None, definition(app)["metadata"]["name"], definition(app), force=True)
        await client.apply(
            kinds.NAMESPACE, None, NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        await served(client)
        gate = asyncio.Semaphore(CONNECTIONS)

        async def make(number: int) -> bytes:
            async with gate:
                return await client.create(
                    app.kind,
                    NAMESPACE,
                    {
                        "apiVersion": app.kind.api_version,
                        "kind": app.kind.kind,
                        "metadata": {"name": f"cafe-{number}"},
                        "spec": {"size": 2, "image": "nginx"},
                    },
                )

        made = [orjson.loads(raw) for raw in await asyncio.gather(*map(make, range(size)))]
        result: dict[str, float] = await work(cluster, client, made)
        return result


async def served(client: Client) -> None:
    for _ in range(200):
        try:
            async for _page in client.list_pages(app.kind, NAMESPACE, limit=1):
                return
        except Exception:
            await asyncio.sleep(0.05)


async def bare(cluster: Cluster, client: Client, made: list[dict[str, Any]]) -> dict[str, float]:
    """The limit: the same writes, straight over one HTTP session, by a process of its own."""
    with tempfile.NamedTemporaryFile("wb", suffix=".json", delete=False) as file:
        file.write(orjson.dumps([{"name": item["metadata"]["name"], "uid": item["metadata"]["uid"]} for item in made]))
    command = [sys.executable, "-m", "benchmarks.bare", str(cluster.kubeconfig), file.name]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    await asyncio.to_thread(Path(file.name).unlink)
    return dict(json.loads(done.stdout))


async def bare_writes(kubeconfig: Path, made: list[dict[str, str]]) -> dict[str, float]:
    """Two applies per resource over 16 connections."""
    server = endpoint(kubeconfig)
    bodies = []
    for item in made:
        own = own_of(app, item["name"], NAMESPACE, item["uid"])
        workload = render(app, app.parse({"size": 2, "image": "nginx"}), own)["cafe"].workload
        assert workload is not None
        status = {
            "apiVersion": app.kind.api_version,
            "kind": app.kind.kind,
            "metadata": {"name": item["name"], "namespace": NAMESPACE, "uid": item["uid"]},
            "status": {"nodes": []},
        }
        bodies.append(
            (
                (kinds.DEPLOYMENT.path(NAMESPACE, item["name"]), orjson.dumps(workload.body)),
                (app.kind.path(NAMESPACE, item["name"], "status"), orjson.dumps(status)),
            )
        )
    started, cpu = time.monotonic(), time.process_time()
    latencies = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=server.tls or True)
    ) as session:
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(pair: Any) -> None:
            async with gate:
                for path, body in pair:
                    begun = time.monotonic()
                    url = f"{server.server}{path}?fieldManager=bare&force=true"
                    async with session.patch(
                        url, data=body, headers={"Content-Type": "application/apply-patch+yaml"}
                    ) as answer:
                        await answer.read()
                        assert answer.status in (200, 201), answer.status
                    latencies.append(time.monotonic() - begun)

        await asyncio.gather(*map(one, bodies))
    took = time.monotonic() - started
    return {
        "rate": len(made) / took,
        "cpu_ms": (time.process_time() - cpu) * 1000 / len(made),
        "writes": 2.0,
        "reads": 0.0,
        "apply_p50_ms": median(latencies) * 1000,
    }


async def operator(cluster: Cluster, client: Client, made: list[dict[str, Any]]) -> dict[str, float]:
    """`hanei run` as a process: until every resource has its Deployment and status, then single changes, then a restart."""
    process = start(cluster)
    found: dict[str, float] = {}
    try:
        await until(client, lambda items: all(item.get("status", {}).get("observedGeneration") == 1 for item in items))
        lines = audited(cluster)
        found |= converged(lines, len(made))
        found["cpu_ms"] = cpu(process) * 1000 / len(made)
        found["memory_mib"] = memory(process)
        found |= await changes(client, made[:50])
    finally:
        stop(process)
    mark = len(audited(cluster))
    process = start(cluster)
    try:
        await asyncio.sleep(8)
        after = audited(cluster)[mark:]
        found["restart_writes"] = float(sum(1 for one in after if is_write(one)))
        found["restart_cpu_s"] = cpu(process)
    finally:
        stop(process)
    return found


def start(cluster: Cluster) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "hanei.cli.main",
        "run",
        "--app",
        "ochacafe.app:app",
        "-n",
        NAMESPACE,
        "--http-port",
        "-1",
    ]
    return subprocess.Popen(
        command,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HANEI_LOG": "warning"},
        stderr=subprocess.DEVNULL,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(10)


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU, by /proc: user and system time of all its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[bytes]) -> float:
    """Resident memory in MiB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def until(client: Client, check: Any) -> None:
    limit = time.monotonic() + WAIT
    while time.monotonic() < limit:
        items: list[Any] = []
        async for page in client.list_pages(app.kind, NAMESPACE):
            items += map(orjson.loads, page.items)
        if check(items):
            return
        await asyncio.sleep(0.2)
    raise RuntimeError("not converged")


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    """The operator's requests."""
    assert cluster.audit_log is not None
    lines = map(json.loads, cluster.audit_log.read_text().splitlines())
    return [
        one
        for one in lines
        if one.get("userAgent", "").startswith("hanei/") and one.get("objectRef", {}).get("namespace") == NAMESPACE
    ]


def is_write(one: dict[str, Any]) -> bool:
    return one["verb"] not in ("get", "list", "watch") and one["objectRef"].get("resource") != "leases"


def converged(lines: list[dict[str, Any]], size: int) -> dict[str, float]:
    """Rate from the first to the last write by the server's clock, and requests per resource."""
    times = [stamp(one["requestReceivedTimestamp"]) for one in lines if is_write(one)]
    verbs = Counter(
        "write" if is_write(one) else one["verb"] for one in lines if one["objectRef"].get("resource") != "leases"
    )
    return {"rate": size / (max(times) - min(times)), "writes": verbs["write"] / size, "reads": verbs["get"] / size}


async def changes(client: Client, made: list[dict[str, Any]]) -> dict[str, float]:
    """From the answer to a change of a resource until its Deployment is seen changed, one after the other."""
    took = []
    events = client.watch(kinds.DEPLOYMENT, NAMESPACE, resource_version="0", timeout=300)
    waiting: dict[str, asyncio.Future[float]] = {}

    async def listen() -> None:
        async for event in events:
            item = orjson.loads(event.object)
            future = waiting.get(item.get("metadata", {}).get("name", ""))
            if (
                future is not None
                and not future.done()
                and item["spec"]["template"]["spec"]["containers"][0]["image"] == "changed"
            ):
                future.set_result(time.monotonic())

    task = asyncio.create_task(listen())
    await asyncio.sleep(0.5)
    for item in made:
        name = item["metadata"]["name"]
        waiting[name] = asyncio.get_running_loop().create_future()
        await client.merge_patch(app.kind, NAMESPACE, name, {"spec": {"image": "changed"}})
        saved = time.monotonic()
        took.append(await asyncio.wait_for(waiting[name], 30) - saved)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    took.sort()
    return {"change_p50_ms": median(took) * 1000, "change_p99_ms": took[int(len(took) * 0.99)] * 1000}


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def stamp(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def show(size: int, found: dict[str, dict[str, float]]) -> None:
    """The table of one N, with the ratio where both have the line."""
    print(f"\nN = {size}, {CONNECTIONS} connections, etcd and API server alone")
    names = list(dict.fromkeys([*found["bare"], *found["hanei"]]))
    for name in names:
        one, other = found["bare"].get(name), found["hanei"].get(name)
        ratio = f"{other / one:8.2f}" if one and other is not None else ""
        print(
            f"  {name:<16} bare {'' if one is None else f'{one:10.2f}':>10}   hanei {'' if other is None else f'{other:10.2f}':>10}   {ratio}"
        )


if __name__ == "__main__":
    main()
