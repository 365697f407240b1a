"""Whole operator processes on a real API server: two for one Lease, SIGTERM, and a server that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator  # noqa: TC003 (pytest reads fixture annotations)
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from hanei import kinds
from hanei.cluster import Cluster, down, up
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.runtime.controller import Controller, Key, Result
from hanei.runtime.leader import Leader, LeaseName
from hanei.runtime.manager import Manager
from hanei.runtime.workqueue import WorkQueue
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.system]

# A tenth of production's, where a test would wait for them.
QUICK = replace(
    OperatorSettings(),
    lease_duration=3.0,
    renew_deadline=2.0,
    retry_period=0.3,
    connect_timeout=1.0,
    request_timeout=3.0,
    watch_backoff=2.0,
    http_port=0,
)


@pytest.fixture
async def admin(hanei_cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(load(hanei_cluster.kubeconfig)) as made:
        yield made


class Process:
    """One operator that notes what it reconciles: every ConfigMap of a namespace with the label app=x."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.leader = Leader(client, LeaseName(namespace, "operator"), client.settings)
        self.manager = Manager(client, leader=self.leader)
        self.seen: list[Key] = []
        self.stop = asyncio.Event()
        queue = WorkQueue[Key]()
        informer = self.manager.informers.get(kinds.CONFIG_MAP, namespace, labels="app=x")
        informer.subscribe(lambda event: queue.add(event.item.key))
        keys = lambda: [item.key for item in informer.store.all()]  # noqa: E731
        self.manager.add_controller(Controller("test", self._note, queue, 2, client.settings, keys=keys))

    async def _note(self, key: Key) -> Result:
        self.seen.append(key)
        return Result()


@contextlib.asynccontextmanager
async def running(cluster: Cluster, namespace: str) -> AsyncIterator[tuple[Process, asyncio.Task[None]]]:
    async with Client(load(cluster.kubeconfig), QUICK) as client:
        process = Process(client, namespace)
        task = asyncio.create_task(process.manager.run(process.stop))
        yield process, task
        process.stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is waited for happens in another process)
            await asyncio.sleep(0.02)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "x"}}}


async def test_of_two_processes_one_works_and_the_other_takes_over(
    admin: Client, hanei_cluster: Cluster, hanei_namespace: str
) -> None:
    """At once after an orderly stop; a standby is ready and reports no leader."""
    async with running(hanei_cluster, hanei_namespace) as (one, _):
        await until(one.manager.started.is_set)
        async with running(hanei_cluster, hanei_namespace) as (two, _):
            await admin.create(kinds.CONFIG_MAP, hanei_namespace, config_map("a"))
            await until(lambda: one.seen == [(hanei_namespace, "a")])
            await until(lambda: two.manager.readiness() == [])
            assert not two.leader.is_leader
            assert two.seen == []
            one.stop.set()
            released = time.monotonic()
            await until(two.manager.started.is_set)
            assert time.monotonic() - released < QUICK.lease_duration
            await until(lambda: two.seen == [(hanei_namespace, "a")])
            await admin.create(kinds.CONFIG_MAP, hanei_namespace, config_map("b"))
            await until(lambda: (hanei_namespace, "b") in two.seen)
            assert (hanei_namespace, "b") not in one.seen


async def test_after_a_crash_the_other_waits_for_the_lease_to_run_out(
    hanei_cluster: Cluster, hanei_namespace: str
) -> None:
    """Nobody gave it back, so only its time ends it."""
    async with running(hanei_cluster, hanei_namespace) as (one, task):
        await until(one.manager.started.is_set)
        task.cancel()
        crashed = time.monotonic()
        async with running(hanei_cluster, hanei_namespace) as (two, _):
            await until(two.manager.started.is_set)
            assert time.monotonic() - crashed > QUICK.lease_duration - 2 * QUICK.retry_period


async def test_health_readiness_and_metrics_are_served_on_loopback(
    admin: Client, hanei_cluster: Cluster, hanei_namespace: str
) -> None:
    """With what this process did in them."""
    async with running(hanei_cluster, hanei_namespace) as (process, _), aiohttp.ClientSession() as session:
        await until(process.manager.started.is_set)
        await admin.create(kinds.CONFIG_MAP, hanei_namespace, config_map("a"))
        await until(lambda: bool(process.seen))
        assert process.manager.http_address is not None
        host, port = process.manager.http_address
        assert host == "127.0.0.1"
        for path in ("healthz", "readyz"):
            async with session.get(f"http://{host}:{port}/{path}") as response:
                assert (response.status, await response.text()) == (200, "ok\n")
        async with session.get(f"http://{host}:{port}/metrics") as response:
            text = await response.text()
        assert 'hanei_reconcile_total{controller="test",result="done"} 1.0' in text
        assert 'hanei_api_requests_total{code="200",verb="watch"}' in text
        assert "hanei_leader 1.0" in text


PROGRAM = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.runtime.manager import run_until_signalled
from tests.system.test_runtime_manager import QUICK, Process

async def main():
    async with Client(load(Path(sys.argv[1])), QUICK) as client:
        process = Process(client, sys.argv[2])
        async def tell():
            await process.manager.started.wait()
            print("working", flush=True)
        task = asyncio.create_task(tell())
        await run_until_signalled(process.manager)
        await task

asyncio.run(main())
"""


@contextlib.contextmanager
def _started(cluster: Cluster, namespace: str) -> Iterator[subprocess.Popen[str]]:
    """An operator in a process of its own, once it works."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM, str(cluster.kubeconfig), namespace]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, cwd=root, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any(line == "working\n" for line in process.stdout)
            yield process
        finally:
            process.kill()


def _ends(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, float]:
    asked = time.monotonic()
    process.send_signal(number)
    code = process.wait(30)
    return code, time.monotonic() - asked


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_well_within_five_seconds(
    hanei_cluster: Cluster, hanei_namespace: str, number: signal.Signals
) -> None:
    """Exit code 0, and the Lease is free."""
    with _started(hanei_cluster, hanei_namespace) as process:
        code, seconds = _ends(process, number)
    assert (code, seconds < 5) == (0, True)
    path = kinds.LEASE.path(hanei_namespace, "operator")
    assert hanei_cluster.request("GET", path)[1]["spec"].get("holderIdentity", "") == ""


# A server that goes away, which must be nobody else's


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """etcd and an API server for this test alone."""
    if os.environ.get("HANEI_KUBECONFIG"):
        pytest.skip("stops the API server, so it needs one of its own")
    name = f"outage-{os.getpid()}"
    try:
        yield up(name, node="none")
    finally:
        down(name)


def _server(cluster: Cluster) -> int:
    return int((cluster.folder / "pids" / "kube-apiserver").read_text("ascii"))


def _command(cluster: Cluster) -> list[str]:
    """How the API server was started."""
    line = Path(f"/proc/{_server(cluster)}/cmdline").read_bytes().decode()
    return line.rstrip("\0").split("\0")


async def test_a_server_that_hangs_and_comes_back_is_worked_with_again(own_cluster: Cluster) -> None:
    """Stopped for ten seconds: the Lease is lost meanwhile; reconciling again within 30 s, without a restart."""
    async with running(own_cluster, "default") as (process, task):
        await until(process.manager.started.is_set)
        os.kill(_server(own_cluster), signal.SIGSTOP)
        try:
            await until(lambda: not process.leader.is_leader)
            await asyncio.sleep(10)
        finally:
            os.kill(_server(own_cluster), signal.SIGCONT)
        back = time.monotonic()
        async with Client(load(own_cluster.kubeconfig)) as admin:
            await admin.create(kinds.CONFIG_MAP, "default", config_map("a"))
        await until(lambda: ("default", "a") in process.seen)
        assert time.monotonic() - back < 30
        assert not task.done()


async def test_a_server_that_dies_and_is_started_again_is_worked_with_again(own_cluster: Cluster) -> None:
    """Killed and started with the same flags: connections are refused in between, watches are cut."""
    command = _command(own_cluster)
    async with running(own_cluster, "default") as (process, task):
        await until(process.manager.started.is_set)
        os.kill(_server(own_cluster), signal.SIGKILL)
        await until(lambda: not process.leader.is_leader)
        nothing = asyncio.subprocess.DEVNULL
        again = await asyncio.create_subprocess_exec(*command, cwd=own_cluster.folder, stdout=nothing, stderr=nothing)
        try:
            await _answering(own_cluster)
            back = time.monotonic()
            async with Client(load(own_cluster.kubeconfig)) as admin:
                await admin.create(kinds.CONFIG_MAP, "default", config_map("a"))
            await until(lambda: ("default", "a") in process.seen)
            assert time.monotonic() - back < 30
            assert not task.done()
        finally:
            again.kill()  # On SIGTERM it would wait for open watches to end.
            await again.wait()


def test_a_process_ends_in_time_although_the_server_hangs(own_cluster: Cluster) -> None:
    """SIGTERM while nothing answers."""
    with _started(own_cluster, "default") as process:
        os.kill(_server(own_cluster), signal.SIGSTOP)
        try:
            code, seconds = _ends(process, signal.SIGTERM)
        finally:
            os.kill(_server(own_cluster), signal.SIGCONT)
    assert (code, seconds < 5) == (0, True)


async def _answering(cluster: Cluster) -> None:
    async with Client(load(cluster.kubeconfig), QUICK) as admin, asyncio.timeout(60):
        while True:
            try:
                await admin.discover("/readyz")
            except Exception:
                await asyncio.sleep(0.2)
            else:
                return
