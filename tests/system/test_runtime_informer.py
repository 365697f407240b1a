"""Informers on a real API server, its history forgotten included."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator  # noqa: TC003 (pytest reads fixture annotations)
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from hanei import kinds
from hanei.kube.client import Client
from hanei.kube.config import Connection, Login, Tls, load
from hanei.kube.errors import Gone, KubeError
from hanei.runtime.informer import Informer, Selection
from hanei.runtime.informers import Informers
from hanei.runtime.overlay import Overlay
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanei.cluster import Cluster
    from hanei.runtime.store import Event

pytestmark = [pytest.mark.system]

QUICK = replace(OperatorSettings(), watch_backoff=0.5, list_page=20)


@pytest.fixture
async def client(hanei_cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(load(hanei_cluster.kubeconfig), QUICK) as made:
        yield made


@contextlib.asynccontextmanager
async def informed(client: Client, namespace: str, **how: Any) -> AsyncIterator[Informer]:
    informers = Informers(client)
    informer = informers.get(kinds.CONFIG_MAP, namespace, **how)
    task = asyncio.create_task(informers.run())
    try:
        async with asyncio.timeout(30):
            await informer.synced.wait()
        yield informer
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the informer to catch up."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (what is waited for happens in another process)
            await asyncio.sleep(0.01)


def config_map(name: str, /, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def test_the_store_follows_what_is_made_changed_and_deleted(client: Client, hanei_namespace: str) -> None:
    """Only what the selector matches; leaving it is a deletion."""
    for number in range(50):
        await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map(f"cm-{number}", app="x"))
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("other", app="y"))
    async with informed(client, hanei_namespace, labels="app=x") as informer:
        told: list[Event] = []
        informer.subscribe(told.append)
        assert len(informer.store) == 50
        await client.delete(kinds.CONFIG_MAP, hanei_namespace, "cm-0")
        labels = {"metadata": {"labels": {"app": "y"}}}
        await client.merge_patch(kinds.CONFIG_MAP, hanei_namespace, "cm-1", labels)
        await client.merge_patch(kinds.CONFIG_MAP, hanei_namespace, "cm-2", {"data": {"a": "b"}})
        await until(lambda: len(told) == 3)
        assert [(event.type, event.item.meta.name) for event in told] == [
            ("deleted", "cm-0"), ("deleted", "cm-1"), ("modified", "cm-2"),
        ]  # fmt: skip


async def test_an_own_write_is_seen_before_the_watch_and_ends_with_it(client: Client, hanei_namespace: str) -> None:
    """Numbers of a real server compare as the overlay relies on."""
    async with informed(client, hanei_namespace) as informer:
        overlay = Overlay(informer.store)
        transform = informer._transform
        for number in range(20):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"n": str(number)}}
            answer = await client.apply(kinds.CONFIG_MAP, hanei_namespace, "one", body, force=True)
            overlay.record_write(transform(answer))
            seen = overlay.get(hanei_namespace, "one")
            assert seen is not None
            assert orjson.loads(seen.raw)["data"] == {"n": str(number)}
        version = int(orjson.loads(answer)["metadata"]["resourceVersion"])
        await until(lambda: informer.store.resource_version >= version)
        assert overlay.get(hanei_namespace, "one") is informer.store.get(hanei_namespace, "one")


async def test_a_secret_watched_by_name_is_the_only_one_seen(client: Client, hanei_namespace: str) -> None:
    """As consumers of secrets do, for as long as they need it."""
    informers = Informers(client)
    task = asyncio.create_task(informers.run())
    await asyncio.sleep(0)
    informer = informers.acquire(kinds.SECRET, hanei_namespace, fields="metadata.name=mine")
    for name in ("mine", "other"):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}}
        await client.create(kinds.SECRET, hanei_namespace, body)
    await until(lambda: len(informer.store) == 1)
    assert informer.store.get(hanei_namespace, "mine") is not None
    informers.release(informer)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


# History forgotten


def etcd(cluster: Cluster) -> Connection:
    """Where the cluster's own etcd answers; a cluster that is not ours has none for us."""
    pki = cluster.folder / "pki"
    flags = (cluster.folder / "pids" / "kube-apiserver").exists() and _flags(cluster)
    if not flags or not pki.exists():
        pytest.skip("needs the etcd of a local cluster")
    login = Login(certificate=pki / "apiserver.crt", key=pki / "apiserver.key")
    return Connection(flags["--etcd-servers"], tls=Tls(ca=pki / "ca.crt"), credentials=login)


def _flags(cluster: Cluster) -> dict[str, str]:
    number = int((cluster.folder / "pids" / "kube-apiserver").read_text("ascii"))
    line = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")
    return dict(part.split("=", 1) for part in line if part.startswith("--") and "=" in part)


async def compact(cluster: Cluster) -> None:
    """Make etcd forget everything before now, as the API server has it do every five minutes."""
    async with Client(etcd(cluster)) as direct:
        answer = orjson.loads(await direct.post_raw("/v3/kv/range", {"key": "AA=="}))
        revision = answer["header"]["revision"]
        await direct.post_raw("/v3/kv/compaction", {"revision": revision, "physical": True})


@pytest.fixture
async def thing(client: Client, hanei_namespace: str) -> AsyncIterator[kinds.Kind]:
    """A kind that the server knows since a moment ago, so that its memory does not reach far back; with five objects."""
    kind = kinds.Kind(f"{hanei_namespace}.example", "v1", "Thing", "things")
    name = f"things.{kind.group}"
    await client.create(kinds.CRD, None, _crd(name, kind.group))
    try:
        await _served(client, kind, hanei_namespace)
        for number in range(5):
            body = {"apiVersion": kind.api_version, "kind": "Thing", "metadata": {"name": f"thing-{number}"}}
            await client.create(kind, hanei_namespace, body)
        yield kind
    finally:
        await client.delete(kinds.CRD, None, name)


async def test_f38_a_list_whose_history_is_forgotten_between_pages_is_gone(
    client: Client, thing: kinds.Kind, hanei_cluster: Cluster, hanei_namespace: str
) -> None:
    """The continue token of a real server, but from a version that etcd has forgotten."""
    path = thing.path(hanei_namespace)
    first = orjson.loads(await client.request("GET", path, params={"limit": "2"}))
    place = orjson.loads(base64.urlsafe_b64decode(first["metadata"]["continue"] + "=="))
    await compact(hanei_cluster)
    old = base64.urlsafe_b64encode(orjson.dumps({**place, "rv": 2})).decode().rstrip("=")
    with pytest.raises(Gone):
        await client.request("GET", path, params={"limit": "2", "continue": old})


async def test_a_watch_from_before_the_servers_memory_is_gone(
    client: Client, thing: kinds.Kind, hanei_namespace: str
) -> None:
    """A real 410, whether it comes as the answer or inside the stream."""
    async with contextlib.aclosing(client.watch(thing, hanei_namespace, resource_version="1", timeout=10)) as events:
        with pytest.raises(Gone):
            await anext(events)


async def test_an_informer_whose_place_is_forgotten_lists_anew(
    client: Client, thing: kinds.Kind, hanei_namespace: str
) -> None:
    """As after a night on which the watch was down: what vanished meanwhile is told as deleted."""
    informer = Informer(client, Selection(thing, hanei_namespace))
    informer._position = "1"
    task = asyncio.create_task(informer.run())
    await until(informer.synced.is_set)
    assert (len(informer.store), informer.epoch) == (5, 1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    told: list[Event] = []
    informer.subscribe(told.append)
    await client.delete(thing, hanei_namespace, "thing-0")
    informer._position = "1"
    task = asyncio.create_task(informer.run())
    await until(lambda: informer.epoch == 2)
    assert [(event.type, event.item.meta.name) for event in told] == [("deleted", "thing-0")]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _crd(name: str, group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def _served(client: Client, kind: kinds.Kind, namespace: str) -> None:
    """A new kind is served after a moment."""
    async with asyncio.timeout(30):
        while True:
            try:
                _ = [page async for page in client.list_pages(kind, namespace)]
            except KubeError:
                await asyncio.sleep(0.1)
            else:
                return
