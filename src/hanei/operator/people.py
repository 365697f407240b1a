"""Roles for the people who use an app's resources: added to Kubernetes' own view, edit and admin. Pure.

The rule that these three grow by labels is Kubernetes' own (aggregated ClusterRoles). Nobody's rights grow unless an
administrator asks for it: `hanei rbac --aggregate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanei.app import names
from hanei.kinds import Kind
from hanei.operator.rights import Rule, granted_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanei.app.application import App

CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
_LOOK = ("get", "list", "watch")
_CHANGE = ("create", "delete", "deletecollection", "patch", "update")


def aggregated(apps: Iterable[App[Any]]) -> list[dict[str, Any]]:
    """Two ClusterRoles per app: to look, for view, edit and admin; to change, for edit and admin. Status is nobody's.

    Who changes a resource has its components' Roles made. Where those give more than the app's own kind, changing it is
    for admin alone, who may make Roles anyway.
    """
    result = []
    for app in apps:
        beyond = any(rule.group != app.kind.group for rule in granted_rules(app))
        result += [
            _role(app, "view", ("view", "edit", "admin"), _rules(app, _LOOK, ("get",))),
            _role(app, "edit", ("admin",) if beyond else ("edit", "admin"), _rules(app, _CHANGE, ("patch", "update"))),
        ]
    return result


def _rules(app: App[Any], verbs: tuple[str, ...], scale: tuple[str, ...]) -> list[Rule]:
    found = [Rule(app.kind.group, app.kind.plural, verbs)]
    return [*found, Rule(app.kind.group, f"{app.kind.plural}/scale", scale)] if app.scale else found


def _role(app: App[Any], what: str, into: Iterable[str], rules: Iterable[Rule]) -> dict[str, Any]:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in into}
    return {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": {
            "name": names.subdomain(f"{app.kind.plural}.{app.kind.group}-{what}"),
            "labels": {"app.kubernetes.io/managed-by": "hanei", **labels},
        },
        "rules": [rule.as_json() for rule in rules],
    }
