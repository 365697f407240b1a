"""What `hanei rbac` never asks for, whatever the app. Rows SEC01, SEC02, SEC05, SEC06 and SEC07 of `tests/data/security.tsv`."""

from __future__ import annotations

from typing import Any

import pytest

from autolock.app import app as autolock
from hanei import App, Container, Deployment, Own, Right, Settings, setting
from hanei.operator.people import aggregated
from hanei.operator.rights import manifests
from ochacafe.app import app as ochacafe
from tests.apps.fragile import app as fragile
from tests.apps.shop import app as shop

APPS: dict[str, App[Any]] = {"autolock": autolock, "ochacafe": ochacafe, "shop": shop, "fragile": fragile}
FORBIDDEN = {
    "pods/exec", "pods/attach", "nodes", "nodes/proxy", "serviceaccounts/token", "certificatesigningrequests",
    "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "namespaces", "persistentvolumes",
    "customresourcedefinitions", "clusterroles", "clusterrolebindings", "users", "groups",
}  # fmt: skip


def made(app: App[Any], *, cluster_wide: bool) -> list[dict[str, Any]]:
    return manifests([app], namespace="home", account="hanei-operator", cluster_wide=cluster_wide)


def rules(app: App[Any], *, cluster_wide: bool) -> list[dict[str, Any]]:
    return [rule for item in made(app, cluster_wide=cluster_wide) for rule in item.get("rules", ())]


@pytest.mark.parametrize("cluster_wide", [False, True])
@pytest.mark.parametrize("name", APPS)
def test_sec01_no_rule_has_a_wildcard(name: str, cluster_wide: bool) -> None:
    found = rules(APPS[name], cluster_wide=cluster_wide)
    assert found
    assert [
        rule
        for rule in found
        if any("*" in word for field in ("apiGroups", "resources", "verbs") for word in rule[field])
    ] == []


@pytest.mark.parametrize("cluster_wide", [False, True])
@pytest.mark.parametrize("name", APPS)
def test_sec02_sec05_no_rule_is_a_way_to_more_rights(name: str, cluster_wide: bool) -> None:
    for rule in rules(APPS[name], cluster_wide=cluster_wide):
        assert not {"escalate", "bind", "impersonate", "approve", "sign"} & set(rule["verbs"]), rule
        assert not FORBIDDEN & set(rule["resources"]), rule
        if "secrets" in rule["resources"] and set(rule["verbs"]) != {"create"}:
            assert rule.get("resourceNames"), f"every Secret may be read: {rule}"


@pytest.mark.parametrize("name", APPS)
def test_sec06_a_namespaced_install_has_no_cluster_role(name: str) -> None:
    assert [
        item["kind"] for item in made(APPS[name], cluster_wide=False) if item["kind"].startswith("ClusterRole")
    ] == []


def test_sec07_who_may_have_roles_made_that_give_more_than_the_app_is_admin() -> None:
    """A component that may read Secrets: to `edit` the resource would be a way to rights that `edit` cannot hand out."""

    class Spec(Settings):
        size: int = setting(1)

    app = App(Spec, group="example.com", version="v1", kind="Reader", plural="readers", sample={"size": 1})

    @app.component
    def reads(spec: Spec, own: Own) -> Deployment:
        containers = [Container(image="i", env={"SIZE": str(spec.size)})]
        return Deployment(containers=containers, rights=[Right(resources=["configmaps"], verbs=["get"])])

    view, edit = aggregated([app])
    into = "rbac.authorization.k8s.io/aggregate-to-"
    assert [label for label in view["metadata"]["labels"] if label.startswith(into)] == [
        f"{into}view",
        f"{into}edit",
        f"{into}admin",
    ]
    assert [label for label in edit["metadata"]["labels"] if label.startswith(into)] == [f"{into}admin"]
    assert {label for role in aggregated([ochacafe]) for label in role["metadata"]["labels"]} > {f"{into}edit"}
