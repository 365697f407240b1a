"""Rights: the operator lives with what `hanei rbac` prints, and a settings page may change settings only."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from hanei.operator.people import aggregated
from hanei.operator.rights import manifests, policies
from hanei.plan.explore import sample_of
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

    from hanei import App
    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


IMAGE = {"spec": {"main": {"image": "evil"}}}


def patched(cluster: Cluster, world: w.World, patch: dict[str, Any], name: str = "lock") -> tuple[int, str]:
    """A merge patch of an Autolock by whoever the cluster's kubeconfig is: status and answer."""
    status, found = cluster.request("PATCH", w.autolock.kind.path(world.namespace, name), patch, w.MERGE)
    return status, json.dumps(found)


def test_a_namespaced_operator_needs_no_cluster_role() -> None:
    """What `hanei rbac` prints for one namespace holds no ClusterRole; the policy is the administrator's."""
    found = manifests([w.autolock, w.ochacafe], namespace="home", account="hanei-operator", cluster_wide=False)
    assert [item["kind"] for item in found] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    rules = found[1]["rules"]
    assert not [rule for rule in rules if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])]
    secrets = [rule for rule in rules if rule["resources"] == ["secrets"] and rule["verbs"] != ["create"]]
    assert all(rule.get("resourceNames") for rule in secrets), "no right to read Secrets that are not named"


def test_an_ochacafe_operator_gets_rights_on_deployments_only() -> None:
    """Nothing that this app never makes: no ConfigMaps, Secrets, Roles or StatefulSets."""
    (_, role, *_) = manifests([w.ochacafe], namespace="home", account="hanei-operator", cluster_wide=False)
    written = {
        resource
        for rule in role["rules"]
        for resource in rule["resources"]
        if {"create", "patch", "delete"} & set(rule["verbs"])
    }
    assert written == {"deployments", "ochacaves/status", "events", "leases"}


def test_sec10_the_settings_page_changes_settings_and_nothing_else(
    world: w.World, operator: w.Operator, tmp_path: Path
) -> None:
    """As the web app's own account: a setting goes, an image, a Secret's name, labels and another resource do not."""
    for item in policies(w.autolock):
        w.apply_object(world.cluster, item)
    long = "a-very-long-name-of-an-autolock-whose-account-is-cut-with-a-hash"
    for name in ("lock", long):
        world.resource(w.autolock, name, sample_of(w.autolock))
        world.ready(w.autolock, name)
    accounts = {
        item["metadata"]["annotations"]["hanei.dev/resource"]
        if "annotations" in item["metadata"] and "hanei.dev/resource" in item["metadata"]["annotations"]
        else "lock": item["metadata"]["name"]
        for item in world.list(w.kinds.SERVICE_ACCOUNT)
        if item["metadata"]["name"] not in ("default", "hanei-operator")
    }
    for name, account in accounts.items():
        page = dataclasses.replace(
            world.cluster, kubeconfig=w.account_kubeconfig(world.cluster, world.namespace, account, tmp_path)
        )

        def refused(patch: dict[str, Any], page: Cluster = page, name: str = name) -> bool:
            status, answer = patched(page, world, patch, name)
            return status in (403, 422) and "may not be changed from the settings page" in answer

        w.wait_for("the policy to be in force", lambda refused=refused: refused(IMAGE))  # type: ignore[misc]
        assert "spec.main.image" in patched(page, world, IMAGE, name)[1]
        for patch in (
            {"spec": {"authdb": {"secretName": "other"}}},
            {"spec": {"suspend": True}},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"annotations": {"a": "b"}}},
        ):
            assert refused(patch), patch
        status, answer = patched(page, world, {"spec": {"main": {"config": {"main": {"timeout_seq": 42}}}}}, name)
        assert status == 200, answer
        other = long if name == "lock" else "lock"
        assert patched(page, world, {"spec": {"main": {"config": {"main": {"timeout_seq": 1}}}}}, other)[0] == 403
        assert page.request("GET", w.kinds.SECRET.path(world.namespace))[0] == 403
        assert page.request("DELETE", w.autolock.kind.path(world.namespace, name))[0] == 403


def test_the_operator_is_refused_nothing_in_its_ordinary_life(world: w.World, operator: w.Operator) -> None:
    """First converge, a change of every kind, a removal: no 403 in the audit log."""
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    world.ready(w.autolock, "lock")
    for patch in (
        {"main": {"config": {"main": {"timeout_seq": 1}}}},
        {"webapp": {"ingress": {"enabled": False}}},
        {"webhook": {"replicas": 1}},
    ):
        world.patch(w.autolock.kind, "lock", {"spec": patch})
        world.ready(w.autolock, "lock")
    world.delete(w.kinds.DEPLOYMENT, "lock-main")
    w.wait_for("it to be back", lambda: world.find(w.kinds.DEPLOYMENT, "lock-main"))
    world.patch(w.kinds.DEPLOYMENT, "lock-main", {"spec": {"replicas": 9}})
    world.ready(w.autolock, "lock")
    mine = [
        one
        for one in w.audited(world.cluster)
        if one.get("user", {}).get("username") == f"system:serviceaccount:{world.namespace}:hanei-operator"
    ]
    assert mine
    assert [one["requestURI"] for one in mine if one["responseStatus"]["code"] == 403] == []


def test_a_cluster_wide_operator_serves_every_namespace(world: w.World, cluster: Cluster, tmp_path: Path) -> None:
    """One operator with a ClusterRole at home, a resource elsewhere."""
    home = f"{world.namespace}-home"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": home}})
    account = f"operator-{world.namespace}"
    made = manifests([w.ochacafe], namespace=home, account=account, cluster_wide=True)
    try:
        for item in made:
            w.apply_object(cluster, item)
        kubeconfig = w.account_kubeconfig(cluster, home, account, tmp_path)
        with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", ("ochacafe.app:app",), ("--all-namespaces",))):
            world.resource(w.ochacafe, "cafe", {"size": 1, "image": "nginx"})
            found = world.ready(w.ochacafe, "cafe")
            assert len(found["status"]["nodes"]) == 1
    finally:
        for item in made:
            if item["kind"].startswith("ClusterRole"):
                plural = f"{item['kind'].lower()}s"
                cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{plural}/{account}")
        cluster.request("DELETE", f"/api/v1/namespaces/{home}")


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
LOOK = {"get", "list", "watch"}


def may(cluster: Cluster, namespace: str, user: str, app: App[Any], part: str = "") -> set[str]:
    """The verbs that a user may use on an app's resources in a namespace, asked of the API server."""
    attributes = {"namespace": namespace, "group": app.kind.group, "resource": app.kind.plural, "subresource": part}
    found = set()
    for verb in VERBS:
        spec = {"user": user, "resourceAttributes": {**attributes, "verb": verb}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status, answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        assert status == 201, answer
        if answer["status"]["allowed"]:
            found.add(verb)
    return found


def test_sec07_view_edit_and_admin_grow_only_when_they_are_told_to(world: w.World, cluster: Cluster) -> None:
    """Per verb, as people with each of Kubernetes' own roles; without `--aggregate` they may do nothing with our kinds."""
    apps, people = (w.autolock, w.ochacafe), ("view", "edit", "admin")
    for role in people:
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"{role}-{world.namespace}"}
        world.create(w.kinds.ROLE_BINDING, {"metadata": {"name": role}, "roleRef": ref, "subjects": [user]})
    w.wait_for("the bindings", lambda: world.request("GET", w.kinds.POD.path(world.namespace))[0] == 200)

    def rights(part: str = "") -> dict[str, list[set[str]]]:
        return {
            app.kind.kind: [may(cluster, world.namespace, f"{role}-{world.namespace}", app, part) for role in people]
            for app in apps
        }

    nothing = {app.kind.kind: [set[str]()] * 3 for app in apps}
    assert rights() == nothing
    made = aggregated(apps)
    try:
        for item in made:
            w.apply_object(cluster, item)
        wanted = {app.kind.kind: [LOOK, set(VERBS), set(VERBS)] for app in apps}
        w.wait_for("the roles to grow", lambda: rights() == wanted)
        assert rights("status") == nothing
        scale = {"Ochacafe": [{"get"}, {"get", "patch", "update"}, {"get", "patch", "update"}]}
        assert rights("scale") == nothing | scale
    finally:
        for item in made:
            cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{item['metadata']['name']}")
    w.wait_for("the roles to be as before", lambda: rights() == nothing)
