"""The managedFields patch: which entries go, which list items are taken for ours, and when nothing is to be done."""

from __future__ import annotations

from typing import Any

import pytest

from hanei.plan.untangle import untangled

ITEM: dict[str, Any] = {".": {}, "f:name": {}, "f:image": {}}


def entry(manager: str, fields: dict[str, Any], operation: str = "Update", subresource: str = "") -> dict[str, Any]:
    made = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields}
    return made | ({"subresource": subresource} if subresource else {})


def ours(fields: dict[str, Any]) -> dict[str, Any]:
    return entry("hanei", fields, "Apply")


def containers(*names: str) -> dict[str, Any]:
    return {"f:spec": {"f:containers": {f'k:{{"name":"{name}"}}': ITEM for name in names}}}


def live(entries: list[dict[str, Any]], *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "managedFields": entries}, "spec": {"containers": list(items)}}


def wanted(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"containers": list(items)},
    }


def item(name: str, image: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **more}


def left(patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    guard, change = patch
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert change["path"] == "/metadata/managedFields"
    entries: list[dict[str, Any]] = change["value"]
    return entries


def test_an_object_in_order_needs_no_patch() -> None:
    entries = [ours(containers("a")), entry("rival", {"f:spec": {"f:replicas": {}}})]
    assert untangled(wanted(item("a")), live(entries, item("a"))) == []


@pytest.mark.parametrize("manager", ["before-first-apply", "hanei"])
def test_a_shadow_is_dropped_and_others_stay(manager: str) -> None:
    entries = [ours(containers("a")), entry(manager, containers("a")), entry("rival", containers("z"))]
    assert left(untangled(wanted(item("a")), live(entries, item("a")))) == [entries[0], entries[2]]


def test_an_entry_of_a_subresource_is_no_shadow() -> None:
    entries = [ours(containers("a")), entry("hanei", {"f:status": {}}, subresource="status")]
    assert untangled(wanted(item("a")), live(entries, item("a"))) == []


def test_an_object_without_entries_gets_one_of_ours_that_owns_nothing_of_the_spec() -> None:
    (made,) = left(untangled(wanted(item("a")), live([], item("a"))))
    assert (made["manager"], made["operation"], made["apiVersion"]) == ("hanei", "Apply", "apps/v1")
    assert "f:spec" not in made["fieldsV1"]


def test_a_renamed_item_moves_into_our_entry() -> None:
    rival = {"f:spec": {"f:replicas": {}, **containers("evil")["f:spec"]}}
    entries = [ours({"f:spec": {"f:replicas": {}}}), entry("rival", rival)]
    mine, other = left(untangled(wanted(item("a")), live(entries, item("evil"))))
    assert mine["fieldsV1"] == {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"evil"}': {".": {}}}}}
    assert other["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_an_entry_that_owned_nothing_else_goes() -> None:
    entries = [ours({"f:spec": {"f:replicas": {}}}), entry("rival", containers("evil"))]
    (mine,) = left(untangled(wanted(item("a")), live(entries, item("evil"))))
    assert mine["manager"] == "hanei"


def test_items_within_an_item_are_looked_at_too() -> None:
    port: dict[str, Any] = {'k:{"containerPort":81,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    a = {'k:{"name":"a"}': {**ITEM, "f:ports": port}}
    entries = [ours(containers("a")), entry("rival", {"f:spec": {"f:containers": a}})]
    body = wanted(item("a", ports=[{"containerPort": 80, "name": "http"}]))
    found = live(entries, item("a", ports=[{"containerPort": 81, "protocol": "TCP", "name": "http"}]))
    mine, rival = left(untangled(body, found))
    assert rival["fieldsV1"] == containers("a")
    assert mine["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"] == {
        'k:{"containerPort":81,"protocol":"TCP"}': {".": {}}
    }


@pytest.mark.parametrize(
    ("mine", "present"),
    [
        pytest.param(item("a"), [item("sidecar", "proxy")], id="shares no value"),
        pytest.param(item("a", command=["run"]), [item("sidecar", "x")], id="lacks a field of ours"),
        pytest.param(item("a"), [item("a"), item("sidecar", "x")], id="stands behind ours"),
        pytest.param(item("a"), [item("sidecar", "x"), item("a")], id="stands before ours"),
    ],
)
def test_a_foreign_item_stays(mine: dict[str, Any], present: list[dict[str, Any]]) -> None:
    entries = [ours({"f:spec": {"f:replicas": {}}}), entry("rival", containers("sidecar")), entry("b", containers("a"))]
    assert untangled(wanted(mine), live(entries, *present)) == []


def test_a_live_object_is_not_changed_in_place() -> None:
    entries = [ours({"f:spec": {"f:replicas": {}}}), entry("rival", containers("evil"))]
    found = live(entries, item("evil"))
    before = repr(found)
    assert untangled(wanted(item("a")), found)
    assert repr(found) == before
