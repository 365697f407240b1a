"""Situations from the bug reports of this field, on the real API server: `tests/data/situations.tsv`, one test each."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from hanei import kinds
from hanei.crd.definition import definition
from hanei.plan.explore import sample_of
from tests.apps.shop import app as shop
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SHOP = ("tests.apps.shop:app",)


@pytest.fixture(scope="module", autouse=True)
def _crd(cluster: Cluster) -> None:
    w.install(cluster, shop)


@pytest.fixture
def keeper(world: w.World, tmp_path: Path) -> Any:
    """An operator of the shop."""
    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path, secrets=("shop-secret", "other-secret"))
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)) as found:
        yield found


def revision(world: w.World, name: str) -> str:
    return str(world.get(kinds.DEPLOYMENT, name)["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def generation(world: w.World, name: str) -> int:
    return int(world.get(kinds.DEPLOYMENT, name)["metadata"]["generation"])


def rotate(world: w.World, name: str, value: str) -> None:
    world.patch(kinds.SECRET, name, {"data": {"password": base64.b64encode(value.encode()).decode()}})


def new_secret(world: w.World, name: str = "shop-secret", value: str = "one") -> None:
    world.create(kinds.SECRET, {"metadata": {"name": name}, "stringData": {"password": value}})


def row(resource: dict[str, Any], component: str) -> dict[str, Any]:
    return next(one for one in resource["status"]["components"] if one["name"] == component)


def quiet(world: w.World, seconds: float = 3.0) -> list[tuple[str, str, str]]:
    """What the operator writes in the next seconds."""
    mark = w.audit_mark(world.cluster)
    time.sleep(seconds)
    return w.writes(w.audited(world.cluster, since=mark), world.namespace)


def events(world: w.World, reason: str) -> list[dict[str, Any]]:
    return [one for one in world.list(kinds.EVENT) if one.get("reason") == reason]


def test_s01_after_a_rotation_each_status_carries_wanted_and_live_hash_of_every_user(
    world: w.World, keeper: w.Operator
) -> None:
    """One Secret, twenty users: all twenty roll, and each status says so from what was read back."""
    new_secret(world)
    for number in range(20):
        world.resource(shop, f"s{number}", {"password": "shop-secret", "replicas": 1})
    before = {number: row(world.ready(shop, f"s{number}"), "web")["liveHash"] for number in range(20)}
    rotate(world, "shop-secret", "two")

    def rolled() -> bool:
        rows = [row(world.get(shop.kind, f"s{number}"), "web") for number in range(20)]
        return all(
            one.get("liveHash") == one["wantedHash"] != before[number] and one["pods"]["updated"] == 1
            for number, one in enumerate(rows)
        )

    w.wait_for("all twenty to carry the new hash", rolled)


def test_s02_a_setting_changed_while_the_operator_is_down_is_carried_at_its_start(
    world: w.World, keeper: w.Operator
) -> None:
    """Level-triggered: on start exactly the differing workload rolls."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    before = {name: generation(world, f"s-{name}") for name in ("web", "big", "recreated")}
    keeper.stop()
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    keeper.start()
    world.ready(shop, "s")
    after = {name: generation(world, f"s-{name}") for name in before}
    assert after == {**before, "web": before["web"] + 1}


def test_s03_content_decides_when_a_secret_is_deleted_and_made_again(world: w.World, keeper: w.Operator) -> None:
    """Same content: no roll. Other content: one roll."""
    new_secret(world)
    world.resource(shop, "s", {"password": "shop-secret"})
    world.ready(shop, "s")
    start = generation(world, "s-web")
    world.delete(kinds.SECRET, "shop-secret")
    new_secret(world)
    assert [write for write in quiet(world) if write[1] == "deployments"] == []
    assert generation(world, "s-web") == start
    world.delete(kinds.SECRET, "shop-secret")
    new_secret(world, value="two")
    w.wait_for("one roll", lambda: generation(world, "s-web") == start + 1)
    world.ready(shop, "s")
    assert revision(world, "s-web") == "2"


def test_s05_a_changed_file_rolls_although_it_is_mounted_with_subpath(world: w.World, keeper: w.Operator) -> None:
    """The hash is in the template, so nothing relies on a file being refreshed in place."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    mount = world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert any(one.get("subPath") for one in mount)
    before = world.pods("web", "s")
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    world.ready(shop, "s")
    assert not before.keys() & world.pods("web", "s").keys()


def test_s15_s27_the_first_deploy_is_revision_one_and_generation_one(world: w.World, operator: w.Operator) -> None:
    """The hash is in the first version of every workload: nothing is written twice."""
    world.create(
        kinds.SECRET, {"metadata": {"name": "autolock-auth-db-secret"}, "stringData": {"MARIADB_PASSWORD": "x"}}
    )
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    world.resource(w.ochacafe, "cafe", {"size": 2, "image": "nginx"})
    world.ready(w.autolock, "lock")
    world.ready(w.ochacafe, "cafe")
    for item in (*world.workloads("lock").values(), *world.workloads("cafe").values()):
        assert item["metadata"]["generation"] == 1, item["metadata"]["name"]
    assert len(world.list(kinds.REPLICA_SET)) == 4


def test_s17_a_change_for_one_component_leaves_the_others_untouched(world: w.World, keeper: w.Operator) -> None:
    """The product's core claim: B's generation and pods do not move."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    others = ("big", "broken", "stateful", "recreated")
    before = {
        name: (item["metadata"]["generation"], set(world.pods(name, "s")))
        for name, item in world.workloads("s").items()
    }
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    world.ready(shop, "s")
    after = {
        name: (item["metadata"]["generation"], set(world.pods(name, "s")))
        for name, item in world.workloads("s").items()
    }
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert after["web"] != before["web"]


def test_s18_applying_the_same_settings_twice_writes_nothing(world: w.World, keeper: w.Operator) -> None:
    """Rendering is a function: the same settings are no change."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    quiet(world, 2)
    mark = w.audit_mark(world.cluster)
    world.patch(shop.kind, "s", {"spec": {"greeting": "hello"}})
    time.sleep(2)
    assert w.writes(w.audited(world.cluster, since=mark), world.namespace) == []


def test_s19_an_explicit_default_is_no_change(world: w.World, operator: w.Operator) -> None:
    """Defaults are filled in before hashing: writing one out moves no workload."""
    spec = {
        "main": {"image": "nginx"},
        "webapp": {"image": "nginx"},
        "webhook": {"image": "nginx"},
        "mqtt": {"image": "m"},
        "authdb": {"image": "d", "secretName": "x"},
    }
    world.resource(w.autolock, "lock", spec)
    world.ready(w.autolock, "lock")
    world.patch(w.autolock.kind, "lock", {"spec": {"main": {"replicas": 1, "config": {"main": {"timeout_seq": 300}}}}})
    time.sleep(2)
    assert {item["metadata"]["generation"] for item in world.workloads("lock").values()} == {1}


def test_s21_labels_and_annotations_of_a_secret_roll_nothing(world: w.World, keeper: w.Operator) -> None:
    """Ten changes a second of metadata only: no write at all."""
    new_secret(world)
    world.resource(shop, "s", {"password": "shop-secret"})
    world.ready(shop, "s")
    quiet(world, 2)
    mark = w.audit_mark(world.cluster)
    for number in range(30):
        world.patch(kinds.SECRET, "shop-secret", {"metadata": {"annotations": {"touched": str(number)}}})
        time.sleep(0.1)
    assert w.writes(w.audited(world.cluster, since=mark), world.namespace) == []


def test_s23_a_secret_that_may_not_be_read_is_unknown_and_rolls_nothing(world: w.World, tmp_path: Path) -> None:
    """The right is taken away: nothing is decided from it, the live stamp stays, and status says so."""
    new_secret(world)
    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)) as keeper:
        world.resource(shop, "s", {"password": "shop-secret"})
        world.ready(shop, "s")
        start = generation(world, "s-web")
        w.grant(
            world.cluster,
            [shop],
            world.namespace,
            tmp_path,
            without=lambda rule: "shop-secret" in rule.get("resourceNames", ()),
        )
        keeper.stop()
        rotate(world, "shop-secret", "two")
        keeper.start()
        w.wait_for("status to say so", lambda: "Secret" in row(world.get(shop.kind, "s"), "web").get("waitsFor", ""))
        assert generation(world, "s-web") == start


def test_s26_image_and_settings_changed_in_one_apply_are_one_roll(world: w.World, keeper: w.Operator) -> None:
    """Template and hash go out in one write."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    start = generation(world, "s-web")
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed", "image": "other"}})
    world.ready(shop, "s")
    assert (generation(world, "s-web"), revision(world, "s-web")) == (start + 1, "2")


def test_s31_rapid_changes_lead_to_the_last_one_and_nothing_is_undone(world: w.World, keeper: w.Operator) -> None:
    """The cache is behind its own writes all the time: the last value wins, once."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    for number in range(30):
        world.patch(shop.kind, "s", {"spec": {"greeting": f"hello {number}"}})
    world.ready(shop, "s")
    slices = {item["metadata"]["name"]: item for item in world.list(kinds.CONFIG_MAP, "hanei.dev/role=slice")}
    volumes = world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]["spec"]["volumes"]
    name = next(one["configMap"]["name"] for one in volumes if "configMap" in one)
    assert "hello 29" in json.dumps(slices[name]["data"])
    assert generation(world, "s-web") <= 31 + 1


def test_s34_a_secret_that_is_named_many_times_is_watched_once(world: w.World, operator: w.Operator) -> None:
    """Work grows with distinct objects: Autolock refers to one Secret twenty times, in three components."""
    mark = w.audit_mark(world.cluster)
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    world.ready(w.autolock, "lock")
    lists = [
        one
        for one in w.audited(world.cluster, since=mark)
        if one["verb"] == "list"
        and one["objectRef"].get("resource") == "secrets"
        and "autolock-auth" in one["requestURI"]
    ]
    assert len(lists) == 1


def test_s35_a_stripped_stamp_is_put_back_and_a_fight_becomes_a_condition(world: w.World, keeper: w.Operator) -> None:
    """A rival strips our label again and again: it gets a growing delay and `Contested`, not a write each time."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    path = "/metadata/labels/hanei.dev~1role"
    for _ in range(3):
        world.patch(
            kinds.DEPLOYMENT,
            "s-web",
            [{"op": "replace", "path": path, "value": "rival"}],
            w.JSON_PATCH,
            manager="rival",
        )
        w.wait_for(
            "our label to be back",
            lambda: world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["labels"]["hanei.dev/role"] == "workload",
        )
    world.patch(
        kinds.DEPLOYMENT, "s-web", [{"op": "replace", "path": path, "value": "rival"}], w.JSON_PATCH, manager="rival"
    )
    found = world.condition_becomes(shop, "s", "Ready", "Contested")
    assert "s-web" in found["message"]
    assert events(world, "Reverted")


def test_s37_rollout_restart_survives_every_reconcile(world: w.World, keeper: w.Operator) -> None:
    """`kubectl rollout restart` writes an annotation of its own into the pod template: it is left alone."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    before = set(world.pods("web", "s"))
    patch = {
        "spec": {
            "template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}
        }
    }
    world.patch(kinds.DEPLOYMENT, "s-web", patch, manager="kubectl-rollout")
    w.wait_for("new pods", lambda: not before & set(world.pods("web", "s")))
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    world.ready(shop, "s")
    annotations = world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/restartedAt"] == "2026-01-01T00:00:00Z"
    assert "greeting" in annotations["kubernetes.io/change-cause"]


def test_s38_replicas_are_left_to_an_autoscaler_and_kubectl_scale_is_reverted_without_one(
    world: w.World, keeper: w.Operator
) -> None:
    """With an HPA the live number is kept, also over a roll of settings; without one our number comes back."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(kinds.DEPLOYMENT, "s-web", {"spec": {"replicas": 5}}, subresource="scale", manager="a-person")
    w.wait_for("our number to be back", lambda: world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 2)
    assert "spec.suspend" in w.wait_for("the event", lambda: events(world, "Reverted"))[0]["note"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "s-web"}
    world.create(
        kinds.HPA, {"metadata": {"name": "s"}, "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9}}
    )
    time.sleep(1)
    world.patch(kinds.DEPLOYMENT, "s-web", {"spec": {"replicas": 4}}, subresource="scale", manager="an-autoscaler")
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    w.wait_for("the roll", lambda: len(world.pods("web", "s")) == 4 and revision(world, "s-web") == "2")
    world.ready(shop, "s")
    assert world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 4


def test_s41_a_configmap_edited_or_deleted_by_hand_is_restored_without_a_roll(
    world: w.World, keeper: w.Operator
) -> None:
    """The live ConfigMap is edited, the slice is deleted: both come back as they were, said in an Event."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    start = generation(world, "s-web")
    live = world.list(kinds.CONFIG_MAP, "hanei.dev/role=live")[0]
    (key,) = live["data"]
    world.patch(kinds.CONFIG_MAP, live["metadata"]["name"], {"data": {key: "by hand"}})
    w.wait_for("the content", lambda: world.get(kinds.CONFIG_MAP, live["metadata"]["name"])["data"][key] == "short\n")
    web = next(
        one for one in world.list(kinds.CONFIG_MAP, "hanei.dev/role=slice") if "-web-" in one["metadata"]["name"]
    )
    world.delete(kinds.CONFIG_MAP, web["metadata"]["name"])
    again = w.wait_for("the slice", lambda: world.find(kinds.CONFIG_MAP, web["metadata"]["name"]))
    assert (again["data"], again["immutable"]) == (web["data"], True)
    world.ready(shop, "s")
    assert generation(world, "s-web") == start
    assert events(world, "Reverted")


def test_live_files_change_in_place_and_restart_nothing(world: w.World, keeper: w.Operator) -> None:
    """A change of a live file reaches the ConfigMap that the pods have mounted."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    pods = world.pods("web", "s")
    live = world.list(kinds.CONFIG_MAP, "hanei.dev/role=live")[0]
    world.patch(shop.kind, "s", {"spec": {"motto": "longer"}})
    w.wait_for("the file", lambda: "longer\n" in world.get(kinds.CONFIG_MAP, live["metadata"]["name"])["data"].values())
    world.ready(shop, "s")
    assert world.pods("web", "s") == pods


def test_s42_a_deleted_deployment_comes_back_once_without_orphans(world: w.World, keeper: w.Operator) -> None:
    """Re-created with the current hash; its old ReplicaSets are collected."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    old = world.get(kinds.DEPLOYMENT, "s-web")
    world.delete(kinds.DEPLOYMENT, "s-web")
    new = w.wait_for(
        "a new one",
        lambda: (
            found
            if (found := world.find(kinds.DEPLOYMENT, "s-web")) and found["metadata"]["uid"] != old["metadata"]["uid"]
            else None
        ),
    )
    world.ready(shop, "s")
    label = "hanei.dev/settings-hash"
    assert new["spec"]["template"]["metadata"]["labels"][label] == old["spec"]["template"]["metadata"]["labels"][label]
    selector = "hanei.dev/workload=s-web"
    w.wait_for("one ReplicaSet", lambda: len(world.list(kinds.REPLICA_SET, selector)) == 1)


def test_s43_s81_ready_waits_for_pods_of_the_wanted_hash(world: w.World, keeper: w.Operator) -> None:
    """The new image cannot be pulled: old pods satisfy the count, and Ready is False all the same; the reason names it."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"image": "registry.invalid/none"}})
    w.wait_for("a status about the new spec", lambda: w.current(world.get(shop.kind, "s")))
    found = w.wait_for(
        "the trouble",
        lambda: one if "Pull" in (one := w.condition(world.get(shop.kind, "s"), "Ready")).get("message", "") else None,
    )
    assert found["status"] == "False"
    world.patch(shop.kind, "s", {"spec": {"image": "nginx"}})
    world.ready(shop, "s")


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


def row_hash(world: w.World, number: int) -> bool:
    """Whether the settings of this step are what web's workload carries."""
    found = world.get(shop.kind, "s")
    return (
        w.current(found)
        and row(found, "web").get("wantedHash")
        == world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]["metadata"]["labels"]["hanei.dev/settings-hash"]
    )


def test_s66_a_file_over_the_limit_is_refused_before_any_write_of_its_component(
    world: w.World, keeper: w.Operator
) -> None:
    """1.2 MB: size and component stand in the condition; the others go on; the last good state stays live."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    start = generation(world, "s-big")
    world.patch(shop.kind, "s", {"spec": {"size": 1_200_000, "greeting": "changed"}})
    found = world.condition_becomes(shop, "s", "Stalled", "RenderFailed")
    assert "big" in found["message"]
    assert "1,200," in found["message"]
    w.wait_for("web to change", lambda: revision(world, "s-web") == "2")
    assert generation(world, "s-big") == start
    world.patch(shop.kind, "s", {"spec": {"size": 20}})
    world.ready(shop, "s")


def test_s67_a_large_file_is_in_no_annotation(world: w.World, keeper: w.Operator) -> None:
    """900 kB of settings: annotations stay small."""
    world.resource(shop, "s", {"size": 900_000})
    world.ready(shop, "s")
    for kind in (kinds.DEPLOYMENT, kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION):
        for item in world.list(kind):
            assert len(json.dumps(item["metadata"].get("annotations", {}))) < 4000


def test_s69_a_crd_older_than_the_app_is_said_in_status(world: w.World, cluster: Cluster, tmp_path: Path) -> None:
    """A setting that the cluster's CRD does not know would be lost: a condition names it."""
    older = definition(shop)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["motto"]
    path = f"{kinds.CRD.path(None, older['metadata']['name'])}?fieldManager=test&force=true"
    try:
        assert cluster.request("PATCH", path, older, w.APPLY)[0] == 200
        published = "/openapi/v3/apis/shop.hanei.test/v1"
        w.wait_for(
            "the schema to be published", lambda: "motto" not in json.dumps(cluster.request("GET", published)[1])
        )
        kubeconfig = w.grant(cluster, [shop], world.namespace, tmp_path)
        with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)):
            world.resource(shop, "s", {})
            found = world.condition_becomes(shop, "s", "SchemaCurrent", "SchemaOutdated")
            assert "motto" in found["message"]
    finally:
        w.install(cluster, shop)


def test_s70_s82_invalid_settings_are_said_on_the_resource_and_mended_at_once(
    world: w.World, cluster: Cluster, keeper: w.Operator
) -> None:
    """The CRD was loosened, so the server lets a wrong value in: the last accepted settings stay in force, deleted
    children come back from them, and a mended spec gets a fresh start."""
    world.resource(shop, "s", {"greeting": "good"})
    world.ready(shop, "s")
    loose = definition(shop)
    del loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["level"]["enum"]
    path = f"{kinds.CRD.path(None, loose['metadata']['name'])}?fieldManager=test&force=true"
    try:
        assert cluster.request("PATCH", path, loose, w.APPLY)[0] == 200
        w.wait_for(
            "the server to let it in",
            lambda: (
                cluster.request(
                    "PATCH",
                    shop.kind.path(world.namespace, "s"),
                    {"spec": {"level": "wrong", "greeting": "bad"}},
                    w.MERGE,
                )[0]
                == 200
            ),
        )
        found = world.condition_becomes(shop, "s", "Ready", "SettingsInvalid")
        assert "spec.level" in found["message"]
        assert "wrong" in found["message"]
        good = world.get(kinds.DEPLOYMENT, "s-web")
        world.delete(kinds.DEPLOYMENT, "s-web")
        back = w.wait_for(
            "it from the record",
            lambda: (
                one
                if (one := world.find(kinds.DEPLOYMENT, "s-web")) and one["metadata"]["uid"] != good["metadata"]["uid"]
                else None
            ),
        )
        label = "hanei.dev/settings-hash"
        assert (
            back["spec"]["template"]["metadata"]["labels"][label]
            == good["spec"]["template"]["metadata"]["labels"][label]
        )
        world.patch(shop.kind, "s", {"spec": {"level": "high"}})
        # `stateful` is OnDelete: it waits for its pods to be deleted by hand.
        world.condition_becomes(shop, "s", "Ready", "ManualUpdate")
    finally:
        w.install(cluster, shop)


def test_s83_on_delete_waits_for_hands_and_says_so(world: w.World, keeper: w.Operator) -> None:
    """OnDelete: the hash is written and status says that pods must be deleted; Recreate stops before it starts."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"level": "high"}})
    world.condition_becomes(shop, "s", "Ready", "ManualUpdate")
    assert "by hand" in row(world.get(shop.kind, "s"), "stateful")["waitsFor"]
    for name in world.pods("stateful", "s").values():
        world.delete(kinds.POD, name)
    world.ready(shop, "s")


def test_a_component_that_raises_never_stops_the_others(world: w.World, keeper: w.Operator) -> None:
    """Stalled with the author's error; the other components are carried."""
    world.resource(shop, "s", {"broken": True})
    found = world.condition_becomes(shop, "s", "Stalled", "RenderFailed")
    assert "broken" in found["message"]
    assert "the author's mistake" in found["message"]
    w.wait_for(
        "the others",
        lambda: all(
            row(world.get(shop.kind, "s"), name).get("state") == "Ready" for name in ("web", "big", "stateful")
        ),
    )


def test_suspend_leaves_everything_as_it_is(world: w.World, keeper: w.Operator) -> None:
    """Nothing is written while `spec.suspend` is true, and everything is caught up with after."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"suspend": True}})
    world.condition_becomes(shop, "s", "Ready", "Suspended")
    world.patch(kinds.DEPLOYMENT, "s-web", {"spec": {"replicas": 7}})
    world.patch(shop.kind, "s", {"spec": {"greeting": "later"}})
    assert [write for write in quiet(world, 2) if "status" not in write[1]] == []
    assert world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 7
    world.patch(shop.kind, "s", {"spec": {"suspend": False}})
    world.ready(shop, "s")
    assert world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 2


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


def test_change_cause_names_the_setting_and_who(world: w.World, keeper: w.Operator) -> None:
    """`kubectl rollout history` explains itself."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"greeting": "hi"}}, manager="a-person")
    world.ready(shop, "s")
    cause = world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["annotations"]["kubernetes.io/change-cause"]
    assert cause == 'greeting: "hello" → "hi" (a-person)'
