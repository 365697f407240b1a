"""What `hanei rbac` never asks for, whatever the app. Rows SEC01, SEC02, SEC05 and SEC06 of `tests/data/security.tsv`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from autolock.app import app as autolock
from hanei.operator.rights import manifests
from ochacafe.app import app as ochacafe
from tests.apps.fragile import app as fragile
from tests.apps.shop import app as shop

if TYPE_CHECKING:
    from hanei import App

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
