"""Situations C. Too many rolls, wrong order: `tests/data/situations.tsv`."""

from __future__ import annotations

import json

import pytest

from hanei import kinds
from hanei.plan.explore import sample_of
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import generation, revision

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


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
