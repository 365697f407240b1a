"""Situations D. Living with other writers: `tests/data/situations.tsv`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hanei import Kind, kinds
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import events, generation, quiet, revision

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_s35_f14_a_stripped_stamp_is_put_back_and_a_fight_becomes_a_condition(
    world: w.World, keeper: w.Operator
) -> None:
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


def test_f82_suspend_leaves_everything_as_it_is(world: w.World, keeper: w.Operator) -> None:
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


def test_change_cause_names_the_setting_and_who(world: w.World, keeper: w.Operator) -> None:
    """`kubectl rollout history` explains itself."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"greeting": "hi"}}, manager="a-person")
    world.ready(shop, "s")
    cause = world.get(kinds.DEPLOYMENT, "s-web")["metadata"]["annotations"]["kubernetes.io/change-cause"]
    assert cause == 'greeting: "hello" → "hi" (a-person)'


def test_a_value_that_admission_changes_is_reported_and_not_fought(world: w.World, keeper: w.Operator) -> None:
    """A policy that puts another registry before each image: one event names the field, and nothing is written again."""
    policy = Kind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", False)
    binding = Kind(policy.group, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    patch = (
        "[JSONPatch{op: 'replace', path: '/spec/template/spec/containers/0/image',"
        " value: 'mirror.invalid/' + object.spec.template.spec.containers[0].image}]"
    )
    name = {"name": f"mirror-{world.namespace}"}
    applied: list[tuple[Kind, dict[str, Any]]] = [
        (policy, {"metadata": name, "spec": {
            "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
            "matchConditions": [{"name": "once", "expression": "!object.spec.template.spec.containers[0].image.startsWith('mirror')"}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        }}),
        (binding, {"metadata": name, "spec": {"policyName": name["name"]}}),
    ]  # fmt: skip
    try:
        for kind, body in applied:
            status, found = world.cluster.request(
                "POST", kind.path(None), {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            )
            assert status == 201, found
        w.wait_for("the policy to be in force", lambda: mutated(world))
        world.resource(shop, "s", {})

        def told() -> bool:
            notes = [one["note"] for one in events(world, "ChangedByAdmission")]
            return any("Deployment s-web" in note and "containers[web].image" in note for note in notes)

        w.wait_for("the event", told)
        time.sleep(2)
        assert quiet(world, 3) == []
    finally:
        for kind, _ in applied:
            world.cluster.request("DELETE", kind.path(None, name["name"]))


def mutated(world: w.World) -> bool:
    """Whether a Deployment that somebody else makes comes back with another image (a dry run)."""
    pod: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body: dict[str, Any] = {
        "metadata": {"name": "probe"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }
    status, found = world.cluster.request(
        "POST",
        f"{kinds.DEPLOYMENT.path(world.namespace)}?dryRun=All",
        {"apiVersion": "apps/v1", "kind": "Deployment", **body},
    )
    return status == 201 and found["spec"]["template"]["spec"]["containers"][0]["image"].startswith("mirror")
