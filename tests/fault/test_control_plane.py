"""etcd and the API server fail themselves: ended, frozen, full, restored, and two that disagree. `tests/data/faults.tsv`.

Real ones, of a cluster of their own without controllers: Deployments are written, and nothing acts on them.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from hanei import kinds
from tests.fault import servers
from tests.fault.proxy import proxied
from tests.fault.rules import Match, Rule, Rules
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

APP = "ochacafe.app:app"
QUICK = ("request_timeout=3", "watch_backoff=1", "backoff_cap=2", "watch_silence=5")


def image(world: w.World, name: str) -> str | None:
    """The image of a resource's Deployment; None without one."""
    found = world.find(kinds.DEPLOYMENT, name)
    return found["spec"]["template"]["spec"]["containers"][0]["image"] if found else None


def follows(world: w.World, name: str, wanted: str) -> None:
    """The Deployment becomes what the resource says."""
    w.wait_for(f"Deployment {name} with {wanted}", lambda: image(world, name) == wanted)


def edit(world: w.World, name: str, wanted: str) -> None:
    world.patch(w.ochacafe.kind, name, {"spec": {"image": wanted}})


def uids(world: w.World) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in world.list(kinds.DEPLOYMENT)}


def deletes(world: w.World, since: int) -> list[tuple[str, str, str]]:
    """What the operator deleted."""
    found = w.writes(w.audited(world.cluster, since=since), world.namespace)
    return [one for one in found if one[0].startswith("delete")]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[w.World, w.Operator]]:
    """Three resources, converged, and their operator."""
    with servers.servers(w.ochacafe) as world, servers.operated(world, w.ochacafe, APP, tmp_path, *QUICK) as operator:
        for name in ("a", "b", "c"):
            world.resource(w.ochacafe, name, {"size": 1, "image": "one"})
            follows(world, name, "one")
        yield world, operator


def test_f53_etcd_ends_and_begins_again(three: tuple[w.World, w.Operator]) -> None:
    """Killed, away for some seconds, started: the same process goes on, and nothing was deleted or made anew."""
    world, operator = three
    before, mark = uids(world), w.audit_mark(world.cluster)
    etcd = servers.command(world.cluster, servers.ETCD)
    servers.kill(world.cluster, servers.ETCD)
    time.sleep(5)
    servers.begin(world.cluster, etcd)
    servers.answering(world.cluster)
    edit(world, "a", "two")
    follows(world, "a", "two")
    assert uids(world) == before
    assert deletes(world, mark) == []
    assert operator.process is not None
    assert operator.process.poll() is None


def test_f53_etcd_stands_still_and_its_leader_changes(three: tuple[w.World, w.Operator], tmp_path: Path) -> None:
    """Frozen in the middle of a write: the API server answers with its own time-outs. And what it says of a new leader
    (by a rule of the proxy: one etcd has no other leader)."""
    world, operator = three
    before, mark = uids(world), w.audit_mark(world.cluster)
    assert operator.process is not None
    os.kill(operator.process.pid, signal.SIGSTOP)
    edit(world, "a", "two")
    with servers.frozen(world.cluster, servers.ETCD):
        os.kill(operator.process.pid, signal.SIGCONT)
        time.sleep(8)
    follows(world, "a", "two")
    assert operator.process.poll() is None
    operator.stop()
    changed = Rule(match=Match(verb="patch"), times=4, status=500, reason="etcdserver: leader changed")
    with proxied(operator.kubeconfig, world.cluster.folder / "pki", lambda: None) as (proxy, through):
        proxy.rules = Rules([changed])
        edit(world, "b", "two")
        with w.running(w.Operator(through, tmp_path / "second.log", (APP,), operator.arguments)):
            follows(world, "b", "two")
            assert proxy.rules.used >= 4
    assert uids(world) == before
    assert deletes(world, mark) == []


def test_f53_etcd_is_full_and_gets_room_again(three: tuple[w.World, w.Operator]) -> None:
    """NOSPACE: every write is refused until the alarm is taken back. Some tries, no storm, and then the change is carried."""
    world, operator = three
    before, mark = uids(world), w.audit_mark(world.cluster)
    assert operator.process is not None
    normal = servers.command(world.cluster, servers.ETCD)
    full = servers.command(world.cluster, servers.ETCD, **{"quota-backend-bytes": "1"})
    os.kill(operator.process.pid, signal.SIGSTOP)
    edit(world, "a", "two")
    servers.kill(world.cluster, servers.ETCD)
    servers.begin(world.cluster, full)
    refused = w.wait_for("a write to be refused", lambda: _refused(world))
    assert "space exceeded" in refused
    tried = w.audit_mark(world.cluster)
    os.kill(operator.process.pid, signal.SIGCONT)
    time.sleep(10)
    tries = w.writes(w.audited(world.cluster, since=tried), world.namespace)
    assert 0 < len(tries) < 60
    assert image(world, "a") == "one"
    servers.kill(world.cluster, servers.ETCD)
    servers.begin(world.cluster, normal)
    servers.answering(world.cluster)
    servers.disarm(world.cluster)
    follows(world, "a", "two")
    assert uids(world) == before
    assert deletes(world, mark) == []
    assert operator.process.poll() is None


def _refused(world: w.World) -> str:
    """What the server says to a write; "" while it takes writes or is away."""
    try:
        status, answer = world.request(
            "PATCH", kinds.NAMESPACE.path(None, world.namespace), {"metadata": {"labels": {"t": str(time.time_ns())}}}, w.MERGE
        )  # fmt: skip
    except Exception:
        return ""
    return str(answer.get("message", "")) if status >= 500 and "space" in str(answer) else ""


def test_f34_an_etcd_that_is_restored_goes_back_and_nothing_is_deleted(three: tuple[w.World, w.Operator]) -> None:
    """A snapshot from before some changes is put back under a running operator: resourceVersions go back.

    What was made since is gone with its resource, what was deleted since is there again, and each Deployment is what its
    resource says, then and after the next change.
    """
    world, operator = three
    snapshot = servers.Snapshot(world.cluster)
    kept = uids(world)
    edit(world, "a", "two")
    follows(world, "a", "two")
    world.delete(w.ochacafe.kind, "b")
    world.delete(kinds.DEPLOYMENT, "b")
    for number in range(20):
        world.resource(w.ochacafe, f"late-{number}", {"size": 1, "image": "late"})
    for number in range(20):
        follows(world, f"late-{number}", "late")
    newest = int(world.get(kinds.NAMESPACE, world.namespace)["metadata"]["resourceVersion"])
    newest = max(newest, *(int(item["metadata"]["resourceVersion"]) for item in world.list(kinds.DEPLOYMENT)))
    mark = w.audit_mark(world.cluster)
    snapshot.restore()
    assert uids(world) == kept, "the snapshot is what it was"
    for name in ("a", "b", "c"):
        edit(world, name, "three")
        follows(world, name, "three")
    numbers = [int(item["metadata"]["resourceVersion"]) for item in world.list(kinds.DEPLOYMENT)]
    assert max(numbers) < newest, "the numbers went back, or this test shows nothing"
    world.resource(w.ochacafe, "late-1", {"size": 1, "image": "again"})
    follows(world, "late-1", "again")
    assert {name: uid for name, uid in uids(world).items() if name != "late-1"} == kept
    assert deletes(world, mark) == []
    assert operator.process is not None
    assert operator.process.poll() is None


def test_f28_a_second_api_server_that_lags_shows_the_past_and_nothing_is_deleted(tmp_path: Path) -> None:
    """Time travel: the operator has seen a resource deleted and made again under its name, and is then led to an API
    server that knows nothing of it. Nothing is deleted or made there or after, and the way back is found."""
    with (
        servers.servers(w.ochacafe) as world,
        servers.second(world.cluster) as (lagging, relay),
    ):
        kubeconfig = w.grant(world.cluster, [w.ochacafe], world.namespace, tmp_path)
        knobs = [part for knob in QUICK for part in ("--tune", knob)]
        with proxied(kubeconfig, world.cluster.folder / "pki", lambda: None) as (proxy, through):
            operator = w.Operator(through, tmp_path / "operator.log", (APP,), ("--no-leader-election", *knobs))
            with w.running(operator):
                for name in ("a", "b"):
                    world.resource(w.ochacafe, name, {"size": 1, "image": "one"})
                    follows(world, name, "one")
                cached = f"{kinds.DEPLOYMENT.path(world.namespace)}?resourceVersion=0"
                w.wait_for(
                    "the second server to see both",
                    lambda: len(servers.asked(world.cluster, lagging, cached)[1].get("items", ())) == 2,
                )
                relay.hold()
                world.delete(w.ochacafe.kind, "a")
                world.delete(kinds.DEPLOYMENT, "a")
                world.resource(w.ochacafe, "a", {"size": 1, "image": "new"})
                follows(world, "a", "new")
                edit(world, "b", "two")
                follows(world, "b", "two")
                after, mark = uids(world), w.audit_mark(world.cluster)
                past = servers.asked(world.cluster, lagging, cached)[1]["items"]
                assert {item["metadata"]["uid"] for item in past} != set(after.values()), "it does not lag"
                asked = len(proxy.trace)
                proxy.down, right = True, proxy.server
                time.sleep(1)
                proxy.server, proxy.down = lagging, False
                time.sleep(12)
                assert len(proxy.trace) > asked, "the operator did ask the lagging server"
                assert [seen.call for seen in proxy.trace[asked:] if seen.write] == [], "and wrote nothing there"
                assert uids(world) == after
                proxy.down = True
                time.sleep(0.5)
                proxy.server, proxy.down = right, False
                relay.release()
                edit(world, "a", "newer")
                follows(world, "a", "newer")
                assert uids(world) == after
                assert deletes(world, mark) == []
                assert operator.process is not None
                assert operator.process.poll() is None
