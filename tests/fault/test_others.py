"""What others do to us: namespaces that end, quotas, rights taken away, hands in our objects. `tests/data/faults.tsv`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from hanei import Kind, kinds
from hanei.plan.explore import sample_of
from tests.fault.oracles import end_state, quiet
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

CAFE = {"size": 1, "image": "nginx"}


def test_f16_in_a_namespace_that_ends_nothing_is_made_and_nothing_spins(world: w.World, operator: w.Operator) -> None:
    """A finalizer keeps the resource; the namespace terminates; its deleted Deployment is not made again."""
    world.resource(w.ochacafe, "c", CAFE)
    world.ready(w.ochacafe, "c")
    world.create(kinds.CONFIG_MAP, {"metadata": {"name": "holds", "finalizers": ["example.com/hold"]}})
    mark = w.audit_mark(world.cluster)
    assert world.request("DELETE", f"/api/v1/namespaces/{world.namespace}")[0] == 200
    try:
        w.wait_for("the Deployment to go", lambda: not world.list(kinds.DEPLOYMENT))
        time.sleep(5)
        requests = w.audited(world.cluster, since=mark)
        assert world.list(kinds.DEPLOYMENT) == []
        assert len(w.writes(requests, world.namespace)) < 20
        assert operator.process is not None
        assert operator.process.poll() is None
    finally:
        world.patch(kinds.CONFIG_MAP, "holds", {"metadata": {"finalizers": None}})


def test_f18_a_right_that_is_taken_away_and_given_back_heals_by_itself(world: w.World, operator: w.Operator) -> None:
    """403 is said in the status; no restart is needed."""
    world.resource(w.ochacafe, "c", CAFE)
    world.ready(w.ochacafe, "c")
    (binding,) = (one for one in world.list(kinds.ROLE_BINDING) if one["subjects"][0]["name"] == "hanei-operator")
    world.delete(kinds.ROLE_BINDING, binding["metadata"]["name"])
    time.sleep(1)
    world.patch(w.ochacafe.kind, "c", {"spec": {"size": 2}})
    time.sleep(3)
    assert world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 1
    assert operator.process is not None
    assert operator.process.poll() is None
    body = {key: value for key, value in binding.items() if key in ("roleRef", "subjects")}
    world.create(kinds.ROLE_BINDING, {"metadata": {"name": binding["metadata"]["name"]}, **body})
    w.wait_for("the change", lambda: world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 2, 90)
    world.ready(w.ochacafe, "c")


def test_f24_a_quota_that_is_exceeded_is_said_and_heals_when_it_grows(world: w.World, operator: w.Operator) -> None:
    quota = Kind("", "v1", "ResourceQuota", "resourcequotas")
    world.create(quota, {"metadata": {"name": "q"}, "spec": {"hard": {"count/deployments.apps": "0"}}})
    w.wait_for("the quota to count", lambda: world.get(quota, "q").get("status", {}).get("used"))
    world.resource(w.ochacafe, "c", CAFE)

    def told() -> bool:
        found = world.get(w.ochacafe.kind, "c")
        return "quota" in json.dumps(found.get("status", {}).get("conditions", []))

    w.wait_for("the status to say so", told)
    mark = w.audit_mark(world.cluster)
    time.sleep(5)
    tries = w.writes(w.audited(world.cluster, since=mark), world.namespace)
    assert len(tries) < 15
    world.patch(quota, "q", {"spec": {"hard": {"count/deployments.apps": "5"}}})
    w.wait_for("the Deployment", lambda: world.find(kinds.DEPLOYMENT, "c"), 120)
    world.ready(w.ochacafe, "c")


REFUSED: dict[str, Any] = {"webapp": {"ingress": {"host": "two..dots"}}}
"""Passes the schema; the server refuses the Ingress."""


def test_f17_a_child_that_the_server_refuses_is_named_and_not_tried_in_a_loop(
    world: w.World, operator: w.Operator
) -> None:
    """The condition names the field; nothing is tried again until the settings change."""
    world.resource(w.autolock, "a", sample_of(w.autolock))
    world.ready(w.autolock, "a")
    world.patch(w.autolock.kind, "a", {"spec": REFUSED})
    found = world.condition_becomes(w.autolock, "a", "Stalled", "Refused")
    assert "host" in found["message"]
    time.sleep(1)
    mark = w.audit_mark(world.cluster)
    time.sleep(5)
    tries = [
        one for one in w.audited(world.cluster, since=mark) if one.get("objectRef", {}).get("resource") == "ingresses"
    ]
    assert [
        one for one in tries if one["verb"] == "patch" and one.get("objectRef", {}).get("namespace") == world.namespace
    ] == []
    world.patch(w.autolock.kind, "a", {"spec": {"webapp": {"ingress": {"host": "one.dot"}}}})
    world.ready(w.autolock, "a")


def test_f29_a_resource_deleted_and_made_again_at_once_gets_objects_of_its_own(
    world: w.World, operator: w.Operator
) -> None:
    world.resource(w.ochacafe, "c", CAFE)
    world.ready(w.ochacafe, "c")
    old = world.get(kinds.DEPLOYMENT, "c")["metadata"]["uid"]
    world.delete(w.ochacafe.kind, "c")
    made = world.resource(w.ochacafe, "c", {**CAFE, "size": 2})

    def new() -> bool:
        found = world.find(kinds.DEPLOYMENT, "c")
        return found is not None and found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    w.wait_for("a Deployment of the new one", new, 90)
    assert world.get(kinds.DEPLOYMENT, "c")["metadata"]["uid"] != old
    world.ready(w.ochacafe, "c")


@pytest.mark.parametrize("step", ["deleted", "made again", "changed and back"])
def test_f45_f46_f48_what_happens_while_the_operator_is_down_is_found(
    world: w.World, operator: w.Operator, step: str
) -> None:
    """Level-triggered: the end is that of an operator that saw everything."""
    spec = sample_of(w.autolock)
    world.resource(w.autolock, "a", spec)
    world.ready(w.autolock, "a")
    wanted = end_state(world)
    assert operator.stop() == 0
    found = world.get(kinds.DEPLOYMENT, "a-webhook")
    if step == "changed and back":
        world.patch(w.autolock.kind, "a", {"spec": {"webhook": {"replicas": 1}}})
        world.patch(w.autolock.kind, "a", {"spec": {"webhook": {"replicas": 3}}})
    else:
        world.delete(kinds.DEPLOYMENT, "a-webhook")
        w.wait_for("it to be gone", lambda: world.find(kinds.DEPLOYMENT, "a-webhook") is None)
    if step == "made again":
        kept = ("name", "labels", "annotations", "ownerReferences")
        metadata = {key: value for key, value in found["metadata"].items() if key in kept}
        world.create(kinds.DEPLOYMENT, {"metadata": metadata, "spec": found["spec"]})
    operator.start()
    w.wait_for("the same end", lambda: end_state(world) == wanted)
    world.ready(w.autolock, "a")
    quiet(world)


CHILDREN: list[tuple[Kind, str]] = [
    (kinds.DEPLOYMENT, "a-main"), (kinds.STATEFUL_SET, "a-mqtt"), (kinds.SERVICE, "a-webapp"), (kinds.INGRESS, "a-webapp"),
    (kinds.SERVICE_ACCOUNT, "a-webapp"), (kinds.ROLE, "a-webapp"), (kinds.ROLE_BINDING, "a-webapp"),
]  # fmt: skip


@pytest.mark.parametrize("what", ["deleted", "labels", "annotations", "ownerReferences"])
def test_f64_f65_every_child_comes_back_deleted_or_stripped_and_keeps_what_users_added(
    world: w.World, operator: w.Operator, what: str
) -> None:
    """Deleted: made again. Labels, annotations or owner taken away: put back. A user's own label stays.

    All three at once leave nothing that says whose it is: that is a foreign object, situation S45.
    """
    world.resource(w.autolock, "a", sample_of(w.autolock))
    world.ready(w.autolock, "a")
    wanted = end_state(world)
    for kind, name in CHILDREN:
        if what == "deleted":
            world.delete(kind, name)
        else:
            had = world.get(kind, name)["metadata"][what]
            gone = None if what == "ownerReferences" else dict.fromkeys(had)
            mine = {"mine": "stays"} | (gone if what == "labels" and gone else {})
            world.patch(kind, name, {"metadata": {what: gone} | {"labels": mine}})
    kept = [place for place in CHILDREN if what != "deleted"]
    w.wait_for("the same end", lambda: without_mine(end_state(world)) == wanted, 90)
    assert [world.get(kind, name)["metadata"]["labels"].get("mine") for kind, name in kept] == ["stays"] * len(kept)
    world.ready(w.autolock, "a")
    quiet(world)


def without_mine(state: list[str]) -> list[str]:
    return sorted(item.replace(', "mine": "stays"', "") for item in state)


def test_f57_a_crd_that_is_deleted_and_made_again_is_waited_for(
    world: w.World, cluster: Cluster, tmp_path: Path
) -> None:
    """Another app's resources go on meanwhile."""
    from tests.apps.fragile import app as fragile
    from tests.apps.shop import app as shop

    kubeconfig = w.grant(cluster, [shop, fragile], world.namespace, tmp_path, secrets=("shop-secret",))
    apps = ("tests.apps.shop:app", "tests.apps.fragile:app")
    name = f"{fragile.kind.plural}.{fragile.kind.group}"
    with w.running(w.Operator(kubeconfig, tmp_path / "log", apps)) as both:
        world.resource(shop, "s", {})
        world.ready(shop, "s")
        assert cluster.request("DELETE", kinds.CRD.path(None, name))[0] == 200
        try:
            w.wait_for("it to be gone", lambda: cluster.request("GET", kinds.CRD.path(None, name))[0] == 404)
            time.sleep(2)
            world.patch(shop.kind, "s", {"spec": {"replicas": 3}})
            w.wait_for("the other app", lambda: world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 3)
            assert both.process is not None
            assert both.process.poll() is None
        finally:
            w.install(cluster, fragile)
        world.resource(fragile, "f", sample_of(fragile))
        w.wait_for("a status", lambda: world.get(fragile.kind, "f").get("status"), 60)


def test_f72_from_every_error_back_to_good_is_as_if_nothing_had_been(world: w.World, operator: w.Operator) -> None:
    """The recovery oracle: a refused child, pods that never get ready, an object that somebody else has."""
    spec = sample_of(w.autolock)
    world.resource(w.autolock, "a", spec)
    world.ready(w.autolock, "a")
    wanted = end_state(world)
    errors: list[tuple[dict[str, Any], str]] = [
        (REFUSED, "Stalled"),
        ({"webhook": {"image": "registry.invalid/never:1"}}, "Progressing"),
        ({"authdb": {"secretName": "another-secret"}}, "Progressing"),
    ]
    for wrong, state in errors:
        world.patch(w.autolock.kind, "a", {"spec": wrong})
        w.wait_for(f"{wrong} to be {state}", lambda: w.current(world.get(w.autolock.kind, "a")))
        world.patch(w.autolock.kind, "a", {"spec": spec})
        world.ready(w.autolock, "a")
        seen, before = set(records_apart(end_state(world))), set(records_apart(wanted))
        assert (seen - before, before - seen) == (set(), set()), wrong


def records_apart(state: list[str]) -> list[str]:
    """Records tell the way, and slices that a record names are kept for it."""
    apart = tuple(f'"hanei.dev/role": "{role}"' for role in ("record", "slice", "live"))
    return [item for item in state if not any(role in item for role in apart)]


def test_f76_one_slow_resource_among_many_makes_nobody_wait(world: w.World, cluster: Cluster, tmp_path: Path) -> None:
    """Requests about one café take 5 s each; forty others are ready long before."""
    from tests.fault.life import staged
    from tests.fault.rules import Match, Rule, Rules

    with staged(cluster, w.ochacafe, tmp_path) as stage:
        stage.proxy.rules = Rules([Rule(match=Match(name="slow*"), times=0, delay=5.0)])
        began = time.monotonic()
        stage.world.resource(w.ochacafe, "slow", CAFE)
        for number in range(40):
            stage.world.resource(w.ochacafe, f"c{number}", CAFE)
        for number in range(40):
            stage.world.ready(w.ochacafe, f"c{number}")
        quick = time.monotonic() - began
        stage.world.ready(w.ochacafe, "slow")
        assert time.monotonic() - began > quick
        assert quick < 60


def test_f44_hundreds_of_changes_at_once_lead_to_the_last_and_to_few_writes(
    world: w.World, operator: w.Operator
) -> None:
    """400 edits as fast as they go: the last holds, and the Deployment is written far less often."""
    world.resource(w.ochacafe, "c", CAFE)
    world.ready(w.ochacafe, "c")
    mark = w.audit_mark(world.cluster)
    for number in range(400):
        world.patch(w.ochacafe.kind, "c", {"spec": {"size": number % 5}})
    world.patch(w.ochacafe.kind, "c", {"spec": {"size": 3}})
    world.ready(w.ochacafe, "c")
    assert world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 3
    done = w.writes(w.audited(world.cluster, since=mark), world.namespace)
    assert 0 < len([one for one in done if one[1] == "deployments"]) < 400


def test_f68_an_object_that_is_being_deleted_is_not_adopted(world: w.World, operator: w.Operator) -> None:
    """A finalizer holds it; it is waited for, said so, and made anew when it is gone."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "c", "annotations": {"hanei.dev/adopt-by": "Ochacafe/c"}, "finalizers": ["example.com/hold"]}
    spec: dict[str, Any] = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    old = world.create(kinds.DEPLOYMENT, {"metadata": metadata, "spec": spec})["metadata"]["uid"]
    world.delete(kinds.DEPLOYMENT, "c")
    world.resource(w.ochacafe, "c", CAFE)
    w.wait_for(
        "the status to say so", lambda: "being deleted" in json.dumps(world.get(w.ochacafe.kind, "c").get("status", {}))
    )
    assert "ownerReferences" not in world.get(kinds.DEPLOYMENT, "c")["metadata"]
    world.patch(kinds.DEPLOYMENT, "c", {"metadata": {"finalizers": None}})
    world.ready(w.ochacafe, "c")
    assert world.get(kinds.DEPLOYMENT, "c")["metadata"]["uid"] != old


def test_s38_what_an_autoscaler_set_a_moment_ago_is_not_overwritten(cluster: Cluster, tmp_path: Path) -> None:
    """The news of its number comes 1.5 s late; the settings change meanwhile."""
    from tests.fault.life import staged
    from tests.fault.rules import Edit, Match, Rule, Rules

    late = Match(verb="watch", resource="deployments"), Edit("hold", on="MODIFIED", seconds=1.5)
    with staged(cluster, w.ochacafe, tmp_path) as stage:
        stage.proxy.rules = Rules([Rule(match=late[0], times=0, stream=(late[1],))])
        world = stage.world
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "c"}
        world.create(kinds.HPA, {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 9}})
        world.resource(w.ochacafe, "c", CAFE)
        world.ready(w.ochacafe, "c")
        quiet(world)
        world.patch(kinds.DEPLOYMENT, "c", {"spec": {"replicas": 4}}, subresource="scale", manager="an-autoscaler")
        world.patch(w.ochacafe.kind, "c", {"spec": {"image": "httpd"}})
        w.wait_for("the change", lambda: "httpd" in json.dumps(world.get(kinds.DEPLOYMENT, "c")["spec"]))
        assert world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 4
        assert any(seen.status == 409 for seen in stage.proxy.writes())
