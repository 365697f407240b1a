"""A steady cluster and a restarted operator write nothing but the Lease: counted in the API server's audit log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from hanei.plan.explore import sample_of
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

QUIET = 30.0
"""Seconds that are watched, as the issue says."""


def watch_quietly(world: w.World) -> list[tuple[str, str, str]]:
    """What the operator wrote in this namespace within the quiet time."""
    mark = w.audit_mark(world.cluster)
    limit = time.monotonic() + QUIET
    while time.monotonic() < limit:
        time.sleep(1)
    return w.writes(w.audited(world.cluster, since=mark), world.namespace)


def test_s22_a_steady_cluster_and_a_restarted_operator_write_nothing(world: w.World, operator: w.Operator) -> None:
    """With 1, 20 and 200 resources: 30 s of quiet, then a restart and 30 s more."""
    made = 0
    for wanted in (1, 20, 200):
        while made < wanted:
            # Every tenth is an Autolock of five components, the others are cafés.
            if made % 10 == 0:
                world.resource(w.autolock, f"lock-{made}", sample_of(w.autolock))
            else:
                world.resource(w.ochacafe, f"cafe-{made}", {"size": 1, "image": "nginx"})
            made += 1
        for number in range(made):
            world.ready(*((w.autolock, f"lock-{number}") if number % 10 == 0 else (w.ochacafe, f"cafe-{number}")))
        settled(world)
        assert watch_quietly(world) == [], f"{wanted} resources, steady"
        assert operator.stop() == 0
        mark = w.audit_mark(world.cluster)
        operator.start()
        w.wait_for("the operator to lead again", lambda mark=mark: leads(world, mark))  # type: ignore[misc]
        assert watch_quietly(world) == [], f"{wanted} resources, after a restart"
        since = w.audited(world.cluster, since=mark)
        assert w.writes(since, world.namespace) == [], f"{wanted} resources, while it restarted"


def settled(world: w.World) -> None:
    """Wait for two seconds without a write: late status counts are written at most once a second."""

    def quiet() -> bool:
        mark = w.audit_mark(world.cluster)
        time.sleep(2)
        return w.writes(w.audited(world.cluster, since=mark), world.namespace) == []

    w.wait_for("status writes to end", quiet)


def leads(world: w.World, mark: int) -> bool:
    found = w.audited(world.cluster, since=mark)
    return any(
        one.get("objectRef", {}).get("resource") == "leases"
        and one["verb"] == "update"
        and one["objectRef"].get("namespace") == world.namespace
        for one in found
    )


def test_a_start_makes_few_requests_whatever_the_number_of_resources(
    world: w.World, operator: w.Operator, tmp_path: Path
) -> None:
    """A reconcile reads nothing: every read is a list or a watch of an informer, the Lease or the schema."""
    for number in range(10):
        world.resource(w.ochacafe, f"cafe-{number}", {"size": 1, "image": "nginx"})
    for number in range(10):
        world.ready(w.ochacafe, f"cafe-{number}")
    reads = [
        one
        for one in w.audited(world.cluster)
        if one["verb"] == "get" and one.get("objectRef", {}).get("namespace") == world.namespace
    ]
    assert {one["objectRef"]["resource"] for one in reads} <= {"leases"}
