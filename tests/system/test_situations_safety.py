"""Situations G. Safety of the roll: `tests/data/situations.tsv`."""

from __future__ import annotations

import pytest

from hanei import kinds
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import row

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_s83_on_delete_waits_for_hands_and_says_so(world: w.World, keeper: w.Operator) -> None:
    """OnDelete: the hash is written and status says that pods must be deleted; Recreate stops before it starts."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    world.patch(shop.kind, "s", {"spec": {"level": "high"}})
    world.condition_becomes(shop, "s", "Ready", "ManualUpdate")
    assert "by hand" in row(world.get(shop.kind, "s"), "stateful")["waitsFor"]
    for name in world.pods("stateful", "s").values():
        world.delete(kinds.POD, name)
    world.ready(shop, "s")


def test_a_component_that_raises_never_stops_the_others(world: w.World, keeper: w.Operator) -> None:
    """Stalled with the author's error; the other components are carried."""
    world.resource(shop, "s", {"broken": True})
    found = world.condition_becomes(shop, "s", "Stalled", "RenderFailed")
    assert "broken" in found["message"]
    assert "the author's mistake" in found["message"]
    w.wait_for(
        "the others",
        lambda: all(
            row(world.get(shop.kind, "s"), name).get("state") == "Ready" for name in ("web", "big", "stateful")
        ),
    )
