"""The lines of the table, one function per group: from resources that wait to a converged program, then what follows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.fault.proxy import proxied
from tests.fault.rules import Match, Rule, Rules

from benchmarks.stage import NAMESPACE, Audit, Stage, cpu, done, memory, stage, stop, target, when
from hanei import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.contestants import Contestant

Lines = dict[str, float]
EDITS = 50
"""How many single changes a latency is taken from."""
SLOW = 5.0
"""Seconds that each request about the slow resource takes."""


async def bare(app: str, size: int) -> Lines:
    """The limit: the same writes, by a program that does nothing else."""
    async with stage(app) as ground:
        await ground.resources(size)
        audit = Audit(ground.cluster, ("bare",))
        with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
            file.write(orjson.dumps(ground.made))
            file.flush()
            command = [sys.executable, "-m", "benchmarks.bare", str(ground.kubeconfig), file.name, app]
            ran = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, text=True, check=True)
        written = audit.writes()
        per = len({target(one)[0] for one in written})
        main = written[: size * per]
        found: Lines = json.loads(ran.stdout)
        return found | {"rate": _rate(main, size), "writes": len(main) / size, "reads": 0.0}


async def contestant(who: Contestant, size: int) -> Lines:
    """Everything about one program, on a cluster of its own."""
    async with stage(who.app) as ground:
        found = await _started(who, ground)
        await ground.resources(size)
        process = who.start(ground.kubeconfig, NAMESPACE)
        try:
            found |= await _converged(who, ground, process, size, found)
            found |= await _edits(who, ground)
            found |= await _together(who, ground, size)
            if who.watches_pods:
                found |= await _pods(ground, process, size)
        finally:
            stop(process)
        found |= await _restarted(who, ground)
        found |= await _away(who, ground)
        found |= await _neighbour(who, ground)
        if who.name == "hanei":
            found |= await _plan(ground)
        return found


async def _started(who: Contestant, ground: Stage) -> Lines:
    """What it costs to be there, without any resource."""
    audit = Audit(ground.cluster, who.agents)
    process = who.start(ground.kubeconfig, NAMESPACE)
    try:
        await audit.until("the first watches", lambda: audit.verbs()["watch"] >= 1)
        await asyncio.sleep(3)
        return {"startup_cpu_s": cpu(process), "memory_empty_mib": memory(process)}
    finally:
        stop(process)


async def _converged(
    who: Contestant, ground: Stage, process: subprocess.Popen[bytes], size: int, empty: Lines
) -> Lines:
    audit = Audit(ground.cluster, who.agents)

    def all_told() -> bool:
        told = {target(one)[1] for one in audit.writes() if target(one)[0] == "ochacaves/status"}
        return len(told) >= size

    await audit.until("a status for every resource", all_told)
    await audit.still()
    used, verbs, resident = cpu(process), audit.verbs(), memory(process)
    return {
        "rate": _rate(audit.writes(), size),
        "cpu_ms": (used - empty["startup_cpu_s"]) * 1000 / size,
        "cpu_all_ms": used * 1000 / size,
        "memory_mib": resident,
        "growth_kib": (resident - empty["memory_empty_mib"]) * 1024 / size,
        "writes": verbs["write"] / size,
        "reads": verbs["get"] / size,
        "requests": float(verbs.total()),
    }


async def _edits(who: Contestant, ground: Stage, name: str = "change") -> Lines:
    """Single changes, one after the other: from the answer to the user until the Deployment is written."""
    audit, took = Audit(ground.cluster, who.agents), []
    async with _deployments(ground) as changed:
        for number in range(1, EDITS + 1):
            seen = changed(f"cafe-{number}", name)
            await ground.edit(number, name)
            saved = time.monotonic()
            took.append(await asyncio.wait_for(seen, 60) - saved)
            await asyncio.sleep(0.02)
    await audit.still()
    return {
        f"{name}_p50_ms": _percentile(took, 0.5) * 1000,
        f"{name}_p99_ms": _percentile(took, 0.99) * 1000,
        f"{name}_writes": audit.verbs()["write"] / EDITS,
        f"{name}_reads": audit.verbs()["get"] / EDITS,
    }


@contextlib.asynccontextmanager
async def _deployments(ground: Stage) -> AsyncIterator[Any]:
    """A watch that answers when a Deployment has an image, by this machine's clock."""
    waiting: dict[tuple[str, str], asyncio.Future[float]] = {}
    events = ground.client.watch(kinds.DEPLOYMENT, NAMESPACE, resource_version="0", timeout=600)

    async def listen() -> None:
        async for event in events:
            if event.type not in ("ADDED", "MODIFIED"):
                continue
            item = orjson.loads(event.object)
            key = item["metadata"]["name"], item["spec"]["template"]["spec"]["containers"][0]["image"]
            if (future := waiting.get(key)) is not None and not future.done():
                future.set_result(time.monotonic())

    def changed(name: str, image: str) -> asyncio.Future[float]:
        return waiting.setdefault((name, image), asyncio.get_running_loop().create_future())

    async with asyncio.TaskGroup() as group:  # a watch that fails ends the measurement with its error
        task = group.create_task(listen())
        await asyncio.sleep(0.5)
        yield changed
        task.cancel()


async def _together(who: Contestant, ground: Stage, size: int) -> Lines:
    """All resources changed as fast as 16 connections can: from the first edit to the last Deployment."""
    audit, users = Audit(ground.cluster, who.agents), Audit(ground.cluster, ("stage",))
    await ground.many(lambda number: ground.edit(number, "together"), size)
    await audit.still(2.0)
    written = [one for one in audit.writes() if target(one)[0] == "deployments"]
    assert len({target(one)[1] for one in written}) == size
    began = min(when(one) for one in users.writes())
    return {"together_rate": size / (max(map(done, written)) - began), "together_writes": len(audit.writes()) / size}


async def _pods(ground: Stage, process: subprocess.Popen[bytes], size: int) -> Lines:
    """How much memory each pod takes that is watched too: two per resource."""
    raw = [page async for page in ground.client.list_pages(kinds.DEPLOYMENT, NAMESPACE)]
    templates = [orjson.loads(item)["spec"]["template"] for page in raw for item in page.items]
    before = memory(process)

    async def make(number: int) -> None:
        template = templates[number % size]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": f"pod-{number}"}, "spec": template["spec"]}  # fmt: skip
        await ground.client.create(kinds.POD, NAMESPACE, body)

    await ground.many(make, 2 * size)
    await asyncio.sleep(3)
    return {"pod_kib": (memory(process) - before) * 1024 / (2 * size)}


async def _restarted(who: Contestant, ground: Stage) -> Lines:
    """A converged program is started again: what it writes and reads, and what that costs."""
    audit = Audit(ground.cluster, who.agents)
    process = who.start(ground.kubeconfig, NAMESPACE)
    try:
        await audit.until("the first watches", lambda: audit.verbs()["watch"] >= 1)
        await asyncio.sleep(1)
        await audit.still(3.0)
        verbs = audit.verbs()
        return {
            "restart_writes": float(verbs["write"]),
            "restart_reads": float(verbs["get"]),
            "restart_requests": float(verbs.total()),
            "restart_cpu_s": cpu(process),
            "restart_memory_mib": memory(process),
        }
    finally:
        stop(process)


async def _away(who: Contestant, ground: Stage) -> Lines:
    """Something was changed while it was not there: how long after its start the Deployment follows."""
    await ground.edit(0, "away")
    async with _deployments(ground) as changed:
        seen, began = changed("cafe-0", "away"), time.monotonic()
        process = who.start(ground.kubeconfig, NAMESPACE)
        try:
            return {"restart_s": await asyncio.wait_for(seen, 120) - began}
        finally:
            stop(process)


async def _neighbour(who: Contestant, ground: Stage) -> Lines:
    """Each request about one resource takes 5 s: the others' changes, meanwhile (through a proxy, as are those without)."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "kubeconfig"
        copy.write_text(ground.kubeconfig.read_text())
        with proxied(copy, ground.cluster.folder / "pki", lambda: None) as (proxy, through):
            process = who.start(through, NAMESPACE)
            try:
                await asyncio.sleep(1)
                await Audit(ground.cluster, who.agents).still(3.0)
                calm = await _edits(who, ground, "calm")
                proxy.rules = Rules([Rule(match=Match(name="cafe-0"), times=0, delay=SLOW)])
                await ground.edit(0, "slow")
                slow = await _edits(who, ground, "beside")
            finally:
                stop(process)
    return {
        "neighbour_p99_ratio": slow["beside_p99_ms"] / calm["calm_p99_ms"],
        "neighbour_p99_ms": slow["beside_p99_ms"],
    }


async def _plan(ground: Stage) -> Lines:
    """`hanei plan` of one change, the whole command."""
    command = [sys.executable, "-m", "hanei.cli.main", "plan", "cafe-1", "--app", "ochacafe.app:app", "--set", "image=other", "--kubeconfig", str(ground.kubeconfig), "-n", NAMESPACE]  # fmt: skip
    took = []
    for _ in range(5):
        began = time.monotonic()
        await asyncio.to_thread(subprocess.run, command, stdout=subprocess.DEVNULL, check=False)
        took.append(time.monotonic() - began)
    return {"plan_s": _percentile(took, 0.5)}


def _rate(written: Sequence[dict[str, Any]], size: int) -> float:
    return size / (max(map(done, written)) - min(map(when, written)))


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
