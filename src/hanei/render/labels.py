"""The labels and annotations that Hanei writes. Documented in `docs/reference/labels.md`; a test compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanei.app import names

if TYPE_CHECKING:
    from hanei.kinds import Kind

MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
APP = "hanei.dev/app"
WORKLOAD = "hanei.dev/workload"
HASH = "hanei.dev/settings-hash"
SLICE = "hanei.dev/slice"
ROLE = "hanei.dev/role"

APPLIED = "hanei.dev/applied"
IMMUTABLE = "hanei.dev/immutable"
SECRETS = "hanei.dev/secrets"
CAUSE = "kubernetes.io/change-cause"
RESOURCE = "hanei.dev/resource"
ADOPT_BY = "hanei.dev/adopt-by"
PREFIX = "hanei.dev/"


def app_label(kind: Kind) -> str:
    """The value of `hanei.dev/app`: tells the objects of one app from those of another."""
    return names.subdomain(f"{kind.plural}.{kind.group}")


def common(kind: Kind, resource: str, component: str) -> dict[str, str]:
    """Labels of every object of a component."""
    return {MANAGED_BY: "hanei", APP: app_label(kind), INSTANCE: names.subdomain(resource), COMPONENT: component}


def selector(kind: Kind, workload: str) -> dict[str, str]:
    """The pod selector of a workload: names only, frozen for its life (situation S55)."""
    return {APP: app_label(kind), WORKLOAD: workload}
