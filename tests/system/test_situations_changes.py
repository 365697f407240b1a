"""Situations A. A change seen or missed, on the real API server: `tests/data/situations.tsv`."""

from __future__ import annotations

import time

import pytest

from hanei import kinds
from hanei.plan.explore import sample_of
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import generation, new_secret, quiet, revision, rotate, row

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


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
    w.wait_for("the second revision", lambda: revision(world, "s-web") == "2")
    world.ready(shop, "s")
    assert generation(world, "s-web") == start + 1


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


def test_s03_an_optional_secret_made_again_with_the_same_content_rolls_nothing(
    world: w.World, operator: w.Operator
) -> None:
    """Autolock refers to optional keys only: a missing Secret is unknown, and the live stamp stays."""
    data = {"metadata": {"name": "autolock-auth-db-secret"}, "stringData": {"MARIADB_PASSWORD": "x"}}
    world.create(kinds.SECRET, data)
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    world.ready(w.autolock, "lock")
    world.delete(kinds.SECRET, "autolock-auth-db-secret")
    time.sleep(2)
    world.create(kinds.SECRET, data)
    time.sleep(2)
    assert {item["metadata"]["generation"] for item in world.workloads("lock").values()} == {1}
