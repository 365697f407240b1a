"""The proxy itself: what it reads, numbers and does, against the real API server."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hanei import kinds
from hanei.kube import errors
from hanei.kube.client import Client
from hanei.kube.config import load
from tests.fault.call import Call, call_of
from tests.fault.proxy import IDLE, proxied
from tests.fault.rules import Rule, Rules, read_rules
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hanei.cluster import Cluster
    from tests.fault.proxy import Proxy


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("GET /api/v1/namespaces/a/pods", Call("list", "pods", "", "a")),
        ("GET /api/v1/pods?watch=true", Call("watch", "pods")),
        ("GET /apis/apps/v1/namespaces/a/deployments/b", Call("get", "deployments", "apps", "a", "b")),
        ("PATCH /apis/x.y/v1/namespaces/a/cafes/b/status", Call("patch", "cafes", "x.y", "a", "b", "status")),
        ("PATCH /api/v1/namespaces/a/pods/b?dryRun=All", Call("patch", "pods", "", "a", "b", dry_run=True)),
        ("POST /api/v1/namespaces", Call("create", "namespaces")),
        ("GET /api/v1/namespaces/a", Call("get", "namespaces", "", "", "a")),
        ("GET /readyz", Call("get", "/readyz")),
    ],
)
def test_a_request_line_is_read(line: str, call: Call) -> None:
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    found = call_of(method, path, dict([query.split("=")]) if query else {})
    assert found == call
    assert found.counted == (method != "GET" and not query)


def test_rules_are_counted_and_mistakes_named() -> None:
    rules = Rules(read_rules("[{match: {resource: 'dep*'}, skip: 1, times: 2, status: 500}, {times: 0, delay: 1}]"))
    call = Call("patch", "deployments")
    assert [(rules.take(call, 1) or Rule()).status for _ in range(5)] == [0, 500, 500, 0, 0]
    assert (rules.take(Call("get", "pods"), 0) or Rule()).delay == 1
    with pytest.raises(msgspec.ValidationError, match=r"colour"):
        read_rules("[{match: {colour: red}}]")


@pytest.fixture
def proxy(hanei_cluster: Cluster, world: w.World, tmp_path: Path) -> Iterator[tuple[Proxy, Path]]:
    w.grant(world.cluster, [w.autolock], world.namespace, tmp_path)
    kubeconfig = w.account_kubeconfig(world.cluster, world.namespace, "hanei-operator", tmp_path)
    with proxied(kubeconfig, hanei_cluster.folder / "pki", lambda: None) as found:
        yield found


def ask(path: Path, work: Any) -> Any:
    async def run() -> Any:
        async with Client(load(path)) as client:
            return await work(client)

    return w.run_async(run())


def cafe(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {}}


@pytest.mark.system
def test_writes_are_numbered_and_lost_answers_are_lost(world: w.World, proxy: tuple[Proxy, Path]) -> None:
    """Before: not done. After: done, and nobody is told."""
    seat, path = proxy
    body = {"apiVersion": "v1", "kind": "ConfigMap"}

    async def make(client: Client, name: str) -> bytes:
        return await client.apply(kinds.CONFIG_MAP, world.namespace, name, {**body, **cafe(name)})

    ask(path, lambda client: make(client, "one"))
    for moment, there in (("before", False), ("after", True)):
        seat.rules = Rules(read_rules(f"[{{match: {{write: {len(seat.writes()) + 1}}}, lose: {moment}}}]"))
        with pytest.raises(errors.Disconnected):
            ask(path, lambda client, moment=moment: make(client, moment))
        assert (world.find(kinds.CONFIG_MAP, moment) is not None) is there
    assert [(seen.write, seen.call.name, seen.done) for seen in seat.writes()] == [
        (1, "one", True), (2, "before", False), (3, "after", True)
    ]  # fmt: skip


@pytest.mark.system
def test_answers_of_ours_carry_code_and_headers(world: w.World, proxy: tuple[Proxy, Path]) -> None:
    seat, path = proxy
    seat.rules = Rules(read_rules('[{status: 429, headers: {Retry-After: "7"}, times: 1}]'))
    with pytest.raises(errors.TooManyRequests) as caught:
        ask(path, lambda client: client.get(kinds.CONFIG_MAP, world.namespace, "x"))
    assert caught.value.retry_after == 7
    with pytest.raises(errors.NotFound):
        ask(path, lambda client: client.get(kinds.CONFIG_MAP, world.namespace, "x"))


@pytest.mark.system
@pytest.mark.parametrize(
    ("edit", "seen", "error"),
    [
        ("{edit: repeat, after: 1}", ["a", "b", "b", "c"], None),
        ("{edit: hold, after: 1, seconds: 0.3}", ["a", "b", "c"], None),
        ("{edit: cut, after: 1}", ["a"], errors.Disconnected),
        ("{edit: garbage, after: 1}", ["a"], errors.KubeError),
        ("{edit: error, code: 410}", [], errors.Gone),
        ("{edit: close, after: 1}", ["a"], None),
        ("{edit: stall, after: 1, seconds: 0.3}", ["a"], errors.Disconnected),
    ],
)
def test_watches_are_edited(
    world: w.World, proxy: tuple[Proxy, Path], edit: str, seen: list[str], error: type[Exception] | None
) -> None:
    seat, path = proxy
    start = world.request("GET", kinds.SECRET.path(world.namespace))[1]["metadata"]["resourceVersion"]
    for name in "abc":
        world.create(kinds.CONFIG_MAP, {"metadata": {"name": name}})
    seat.rules = Rules(read_rules(f"[{{match: {{verb: watch}}, stream: [{edit}]}}]"))
    names: list[str] = []

    async def watch(client: Client) -> None:
        events = client.watch(kinds.CONFIG_MAP, world.namespace, resource_version=start, timeout=1)
        async with aclosing(events):
            async for event in events:
                name = msgspec.json.decode(event.object)["metadata"].get("name", "")
                names.extend([name] if name in ("a", "b", "c") else [])

    began = time.monotonic()
    if error is None:
        ask(path, watch)
    else:
        with pytest.raises(error):
            ask(path, watch)
    assert names == seen
    assert time.monotonic() - began < 10


@pytest.mark.system
def test_a_list_is_answered_as_of_then(world: w.World, proxy: tuple[Proxy, Path]) -> None:
    seat, path = proxy
    world.create(kinds.CONFIG_MAP, {"metadata": {"name": "first"}})
    then = world.request("GET", kinds.CONFIG_MAP.path(world.namespace))[1]["metadata"]["resourceVersion"]
    world.create(kinds.CONFIG_MAP, {"metadata": {"name": "second"}})

    async def names(client: Client) -> list[str]:
        return [
            msgspec.json.decode(item)["metadata"]["name"]
            async for page in client.list_pages(kinds.CONFIG_MAP, world.namespace)
            for item in page.items
        ]

    assert "second" in ask(path, names)
    seat.rules = Rules(read_rules(f'[{{match: {{verb: list}}, old: "{then}"}}]'))
    assert "second" not in ask(path, names)
    assert "first" in ask(path, names)


@pytest.mark.system
def test_while_it_is_down_every_connection_breaks(world: w.World, proxy: tuple[Proxy, Path]) -> None:
    seat, path = proxy
    seat.down = True
    with pytest.raises(errors.Disconnected):
        ask(path, lambda client: client.get(kinds.CONFIG_MAP, world.namespace, "x"))
    seat.down = False
    with pytest.raises(errors.NotFound):
        ask(path, lambda client: client.get(kinds.CONFIG_MAP, world.namespace, "x"))


@pytest.mark.system
def test_f54_an_idle_connection_that_is_cut_costs_nothing(world: w.World, proxy: tuple[Proxy, Path]) -> None:
    """Requests before, around and after the moment of the cut: each is answered."""
    _, path = proxy
    world.create(kinds.CONFIG_MAP, {"metadata": {"name": "here"}})

    async def ask_slowly(client: Client) -> int:
        answered = 0
        for pause in (0.0, IDLE - 0.02, IDLE, IDLE + 0.02, IDLE + 0.5):
            await asyncio.sleep(pause)
            answered += bool(await client.get(kinds.CONFIG_MAP, world.namespace, "here"))
        return answered

    assert ask(path, ask_slowly) == 5
