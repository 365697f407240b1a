"""Situations E. Names, ownership, life cycle: `tests/data/situations.tsv`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from hanei import kinds
from hanei.plan.explore import sample_of
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import SHOP, generation, row, row_hash

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_s45_a_foreign_object_of_a_wanted_name_is_never_touched(world: w.World, keeper: w.Operator) -> None:
    """Stalled with NameTaken until it is renamed or marked for adoption; other components run."""
    body = {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }
    }
    foreign = world.create(kinds.DEPLOYMENT, {"metadata": {"name": "s-big"}, **body})
    world.create(kinds.SERVICE, {"metadata": {"name": "s-web"}, "spec": {"ports": [{"port": 99}]}})
    world.resource(shop, "s", {})
    found = world.condition_becomes(shop, "s", "Stalled", "NameTaken")
    assert "s-big" in found["message"] or "s-web" in found["message"]
    w.wait_for("the others", lambda: row(world.get(shop.kind, "s"), "recreated").get("state") == "Ready")
    now = world.get(kinds.DEPLOYMENT, "s-big")
    assert (now["metadata"]["uid"], now["spec"]) == (foreign["metadata"]["uid"], foreign["spec"])
    assert "ownerReferences" not in now["metadata"]
    world.delete(kinds.DEPLOYMENT, "s-big")
    world.patch(
        kinds.SERVICE,
        "s-web",
        {"metadata": {"annotations": {"hanei.dev/adopt-by": "Shop/s"}}, "spec": {"ports": [{"port": 80}]}},
    )
    world.patch(
        kinds.SERVICE, "s-web", [{"op": "replace", "path": "/spec/ports", "value": [{"port": 80}]}], w.JSON_PATCH
    )
    world.ready(shop, "s")
    adopted = world.get(kinds.SERVICE, "s-web")
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "s"
    w.wait_for("one entry of ours", lambda: written_by_us(world.get(kinds.SERVICE, "s-web")) == ["Apply"])


def written_by_us(found: dict[str, Any]) -> list[str]:
    """The operations of our entries: what an `Update` owns too would stay when we give it up."""
    return [entry["operation"] for entry in found["metadata"]["managedFields"] if entry["manager"] == "hanei"]


def test_s46_two_resources_that_want_one_name_do_not_fight(world: w.World, keeper: w.Operator) -> None:
    """The first owner keeps it, the second gets a condition; nothing flaps."""
    world.resource(shop, "one", {"fixed": "shared"})
    world.ready(shop, "one")
    start = generation(world, "shared")
    world.resource(shop, "two", {"fixed": "shared"})
    world.condition_becomes(shop, "two", "Stalled", "NameTaken")
    time.sleep(3)
    found = world.get(kinds.DEPLOYMENT, "shared")
    assert (found["metadata"]["generation"], found["metadata"]["ownerReferences"][0]["name"]) == (start, "one")
    world.ready(shop, "one")


def test_s47_a_resource_name_of_253_characters_works(world: w.World, operator: w.Operator) -> None:
    """Names and labels are shortened with a stable hash, the full name stands in an annotation."""
    name = ".".join(["a" * 61, "b" * 63, "c" * 63, "d" * 63])
    assert len(name) == 253
    world.resource(w.autolock, name, sample_of(w.autolock))
    world.resource(w.ochacafe, name, {"size": 1, "image": "nginx"})
    world.ready(w.autolock, name)
    world.ready(w.ochacafe, name)
    found = world.list(kinds.DEPLOYMENT)
    assert {item["metadata"]["annotations"]["hanei.dev/resource"] for item in found} == {name}


def test_s49_removed_and_renamed_components_are_pruned_after_the_new_one_is_ready(
    world: w.World, tmp_path: Path
) -> None:
    """Switched off by a setting, and given up by the next version of the app."""
    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path)
    operator = w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)
    with w.running(operator):
        world.resource(shop, "s", {"extra": True})
        world.ready(shop, "s")
        assert world.find(kinds.DEPLOYMENT, "s-extra")
        world.patch(shop.kind, "s", {"spec": {"extra": False}})
        w.wait_for(
            "extra to go",
            lambda: not world.find(kinds.DEPLOYMENT, "s-extra") and not world.find(kinds.SERVICE, "s-extra"),
        )
        world.patch(shop.kind, "s", {"spec": {"extra": True}})
        world.ready(shop, "s")
        operator.stop()
        operator.apps = ("tests.apps.shop_next:app",)
        operator.start()
        w.wait_for("annex", lambda: world.find(kinds.DEPLOYMENT, "s-annex"))
        w.wait_for(
            "the old ones to go",
            lambda: not any(world.find(kinds.DEPLOYMENT, f"s-{name}") for name in ("extra", "big")),
        )
        world.ready(shop, "s")


def test_s49_a_renamed_workload_goes_only_after_the_new_one_is_ready(world: w.World, keeper: w.Operator) -> None:
    """Both run until the new one is ready; the old pods are then gone."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    old = world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["uid"]
    mark = w.audit_mark(world.cluster)
    world.patch(shop.kind, "s", {"spec": {"fixed": "renamed"}})
    w.wait_for("the old one to go", lambda: not world.find(kinds.DEPLOYMENT, "s-web"))
    assert row(world.ready(shop, "s"), "web")["workload"] == "Deployment/renamed"
    deleted = next(
        one
        for one in w.audited(world.cluster, since=mark)
        if one["verb"] == "delete" and one["objectRef"]["name"] == "s-web"
    )
    made = world.get(kinds.DEPLOYMENT, "renamed")
    assert old != made["metadata"]["uid"]
    available = next(one for one in made["status"]["conditions"] if one["type"] == "Available")
    assert available["lastTransitionTime"][:19] <= deleted["requestReceivedTimestamp"][:19]


def test_s50_rapid_updates_never_delete_what_is_wanted(world: w.World, keeper: w.Operator) -> None:
    """A component is switched on and off quickly, and ends as the last setting says."""
    world.resource(shop, "s", {"extra": True})
    world.ready(shop, "s")
    for number in range(21):
        world.patch(shop.kind, "s", {"spec": {"extra": bool(number % 2), "greeting": str(number)}})
    world.patch(shop.kind, "s", {"spec": {"extra": True}})
    world.ready(shop, "s")
    uid = world.get(kinds.DEPLOYMENT, "s-extra")["metadata"]["uid"]
    time.sleep(2)
    assert world.get(kinds.DEPLOYMENT, "s-extra")["metadata"]["uid"] == uid


def test_s51_s54_a_resource_is_deleted_without_a_valid_spec_or_an_operator(world: w.World, keeper: w.Operator) -> None:
    """There is no finalizer: owner references do the job."""
    world.resource(shop, "s", {"password": "missing-secret", "broken": True})
    w.wait_for("its objects", lambda: world.find(kinds.DEPLOYMENT, "s-web"))
    assert "finalizers" not in world.get(shop.kind, "s")["metadata"]
    keeper.stop()
    world.delete(shop.kind, "s")
    w.wait_for("the resource to go", lambda: not world.find(shop.kind, "s"), 10)
    w.wait_for(
        "its objects to go",
        lambda: (
            not world.list(kinds.DEPLOYMENT) and not world.list(kinds.CONFIG_MAP, "hanei.dev/app=shops.shop.hanei.test")
        ),
        90,
    )


def test_s53_a_child_that_is_terminating_is_waited_for_while_others_go_on(world: w.World, keeper: w.Operator) -> None:
    """A finalizer holds the Deployment: the component waits, the next change of another one is carried."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(kinds.DEPLOYMENT, "s-big", {"metadata": {"finalizers": ["hanei.test/hold"]}})
    world.delete(kinds.DEPLOYMENT, "s-big")
    world.condition_becomes(shop, "s", "Ready", "Terminating")
    before = generation(world, "s-web")
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    w.wait_for("web to change", lambda: generation(world, "s-web") == before + 1)
    world.patch(kinds.DEPLOYMENT, "s-big", {"metadata": {"finalizers": None}})
    world.ready(shop, "s")


def test_s57_s58_slices_are_kept_while_anything_needs_them_and_collected_after(
    world: w.World, cluster: Cluster, tmp_path: Path
) -> None:
    """Those of the template, of ReplicaSets in the revision history and of records stay; the rest goes."""
    from hanei.kube.client import Client
    from hanei.kube.config import load
    from hanei.operator.collect import Collector
    from hanei.operator.gather import Caches
    from hanei.plan.explore import kinds_of
    from hanei.runtime.manager import Manager
    from hanei.settings import OperatorSettings

    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)):
        world.resource(shop, "s", {})
        world.ready(shop, "s")
        for number in range(15):
            world.patch(shop.kind, "s", {"spec": {"greeting": f"hello {number}"}})
            w.wait_for("the roll", lambda number=number: row_hash(world, number))  # type: ignore[misc]
        world.ready(shop, "s")

    async def collect() -> int:
        import asyncio

        settings = OperatorSettings(slice_age=0.0, http_port=None)
        async with Client(load(kubeconfig), settings) as client:
            manager = Manager(client, settings)
            caches = Caches(shop, manager.informers, world.namespace, kinds_of(shop))
            running = asyncio.ensure_future(manager.informers.run())
            for informer in manager.informers.all():
                await informer.synced.wait()
            found = await Collector(client, caches, lambda: True, settings).once()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return found

    before = {one["metadata"]["name"] for one in world.list(kinds.CONFIG_MAP, "hanei.dev/role=slice")}
    assert w.run_async(collect()) > 0
    after = {one["metadata"]["name"] for one in world.list(kinds.CONFIG_MAP, "hanei.dev/role=slice")}
    needed = set()
    for item in (*world.list(kinds.REPLICA_SET), *world.list(kinds.DEPLOYMENT), *world.list(kinds.POD)):
        spec = item["spec"]["template"]["spec"] if "template" in item["spec"] else item["spec"]
        needed |= {
            one["configMap"]["name"]
            for one in spec.get("volumes", ())
            if "configMap" in one and "-live-" not in one["configMap"]["name"]
        }
    needed.discard("kube-root-ca.crt")
    assert needed <= after < before
    records = [
        one
        for one in world.list(kinds.CONTROLLER_REVISION)
        if one["metadata"]["labels"].get("hanei.dev/role") == "record"
    ]
    assert len(records) == 3


def test_a_deleted_and_re_created_resource_waits_for_the_old_objects(world: w.World, keeper: w.Operator) -> None:
    """Same name, new uid: the old children are collected, new ones are made."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    old = world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["uid"]
    world.delete(shop.kind, "s")
    world.resource(shop, "s", {"greeting": "anew"})
    w.wait_for(
        "the new one Ready",
        lambda: (
            w.condition(world.get(shop.kind, "s"), "Ready").get("status") == "True"
            and w.current(world.get(shop.kind, "s"))
        ),
        90,
    )
    assert world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["uid"] != old


def test_s45_an_adoption_that_the_server_would_refuse_takes_nothing(world: w.World, keeper: w.Operator) -> None:
    """A Deployment with another selector is marked for adoption: refused by a dry run, and its owner stays as it was."""
    body = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    world.create(
        kinds.DEPLOYMENT, {"metadata": {"name": "s-big", "annotations": {"hanei.dev/adopt-by": "Shop/s"}}, "spec": body}
    )
    world.resource(shop, "s", {})
    found = world.condition_becomes(shop, "s", "Stalled", "Refused")
    assert "selector" in found["message"]
    assert "ownerReferences" not in world.get(kinds.DEPLOYMENT, "s-big")["metadata"]
