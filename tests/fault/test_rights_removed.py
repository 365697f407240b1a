"""Each rule that `hanei rbac` prints is needed: without it something is refused. Row SEC04 of `tests/data/security.tsv`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from hanei import kinds
from hanei.operator.rights import manifests
from hanei.plan.explore import sample_of
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hanei import App

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

APPS: list[App[Any]] = [w.autolock, w.ochacafe]
QUICK = ("--tune", "collect_interval=1", "--tune", "slice_age=1", "--tune", "watch_backoff=1")


def rules() -> dict[str, dict[str, Any]]:
    """Every rule for both apps, by what it is about."""
    (role,) = (
        item
        for item in manifests(APPS, namespace="home", account="hanei-operator", cluster_wide=False)
        if item["kind"] == "Role"
    )
    return {
        "-".join((*rule["resources"], *rule.get("resourceNames", ()))).replace("/", "-"): rule for rule in role["rules"]
    }


RULES = rules()


def life(world: w.World) -> Iterator[None]:
    """What makes use of every right, a step at a time; a step that cannot be done for want of a right is left out."""
    world.create(kinds.SECRET, {"metadata": {"name": "autolock-auth-db-secret"}, "stringData": {"password": "x"}})
    yield  # the operator's own: it lists what it watches, and takes its Lease
    world.resource(w.autolock, "a", sample_of(w.autolock))
    world.resource(w.ochacafe, "c", {"size": 1, "image": "nginx"})
    yield
    for name in ("a-main", "c"):
        if world.find(kinds.DEPLOYMENT, name):
            world.patch(kinds.DEPLOYMENT, name, {"spec": {"replicas": 7}})
    yield
    world.patch(w.autolock.kind, "a", {"spec": {"main": {"config": {"main": {"timeout_seq": 7}}}}})
    yield


def refusals(world: w.World, since: int, resource: str) -> list[str]:
    """What the API server refused the operator about this resource, in this namespace."""
    return [
        one["requestURI"]
        for one in w.audited(world.cluster, since=since)
        if one.get("responseStatus", {}).get("code") == 403
        and one["objectRef"].get("namespace") == world.namespace
        and resource == "/".join(filter(None, (one["objectRef"]["resource"], one["objectRef"].get("subresource"))))
    ]


@pytest.mark.parametrize("removed", RULES)
def test_sec04_without_this_rule_something_is_refused(world: w.World, tmp_path: Path, removed: str) -> None:
    """The rule is taken out of the Role, and the life meets a 403 about its resource."""
    gone = RULES[removed]
    mark = w.audit_mark(world.cluster)
    kubeconfig = w.grant(
        world.cluster, APPS, world.namespace, tmp_path,
        changed=lambda rule: None if rule["resources"] == gone["resources"] and rule.get("resourceNames") == gone.get("resourceNames") else rule,
    )  # fmt: skip
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", arguments=QUICK)):
        for _ in life(world):
            limit = time.monotonic() + 15
            while time.monotonic() < limit:
                if refusals(world, mark, gone["resources"][0]):
                    return
                time.sleep(0.2)
    pytest.fail(f"nothing was refused without {gone}")


def test_sec04_rights_that_are_held_to_be_granted_are_needed_for_that(world: w.World, tmp_path: Path) -> None:
    """Without `patch` of Autolocks the web app's Role cannot be made, and the status says so."""

    def changed(rule: dict[str, Any]) -> dict[str, Any]:
        if rule["resources"] != [w.autolock.kind.plural]:
            return rule
        return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"]}

    kubeconfig = w.grant(world.cluster, APPS, world.namespace, tmp_path, changed=changed)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", arguments=QUICK)):
        world.resource(w.autolock, "a", sample_of(w.autolock))
        found = world.condition_becomes(w.autolock, "a", "Ready", "Forbidden")
        message = str(found)
        assert "roles" in message.lower()
        assert world.find(kinds.ROLE, "a-webapp") is None
