"""What is written into the Lease, and when; who may lead is tried in `tests/property`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hanei.errors import LeaderLost
from hanei.kube.errors import Disconnected
from hanei.runtime.leader import Leader, LeaseName, identity
from tests.unit.runtime_fake import QUICK, FakeClient, FakeServer

pytestmark = pytest.mark.looptime


def candidate(leases: FakeServer, name: str) -> Leader:
    return Leader(FakeClient(FakeServer(), QUICK, leases), LeaseName("ns", "lease", name), QUICK)


def spec(leases: FakeServer) -> dict[str, Any]:
    found: dict[str, Any] = leases.objects["ns", "lease"]["spec"]
    return found


async def test_the_first_candidate_leads_and_writes_who_and_how_long() -> None:
    """A Lease that people and kubectl can read."""
    leases = FakeServer()
    leader = candidate(leases, "one")
    assert not leader.is_leader
    await leader.acquire()
    assert leader.is_leader
    assert (spec(leases)["holderIdentity"], spec(leases)["leaseDurationSeconds"]) == ("one", 15)
    assert spec(leases)["acquireTime"].endswith("Z")


async def test_a_renewal_costs_one_request_and_no_transition() -> None:
    """The holder knows what it wrote."""
    leases = FakeServer()
    leader = candidate(leases, "one")
    await leader.acquire()
    before = leases.version
    hold = asyncio.create_task(leader.hold())
    await asyncio.sleep(21)
    assert leases.version - before == 10
    assert spec(leases).get("leaseTransitions", 0) == 0
    hold.cancel()


async def test_a_lease_given_back_is_taken_at_once_and_one_that_was_not_after_its_time() -> None:
    """Both are transitions."""
    leases, loop = FakeServer(), asyncio.get_running_loop()
    one, two = candidate(leases, "one"), candidate(leases, "two")
    await one.acquire()
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(5)
    await one.release()
    assert not one.is_leader
    released = loop.time()
    await waiting
    assert loop.time() - released < 2 * QUICK.retry_period
    assert spec(leases)["leaseTransitions"] == 1
    three = candidate(leases, "three")
    crashed = loop.time()
    await three.acquire()
    assert QUICK.lease_duration <= loop.time() - crashed < QUICK.lease_duration + 2 * QUICK.retry_period
    assert spec(leases)["leaseTransitions"] == 2


async def test_a_leader_that_cannot_renew_stops_by_its_deadline() -> None:
    """Counted from before its last renewal."""
    leases, loop = FakeServer(), asyncio.get_running_loop()
    leader = candidate(leases, "one")
    await leader.acquire()
    began = loop.time()
    leader._client.server.failure = Disconnected("away")  # type: ignore[attr-defined]
    with pytest.raises(LeaderLost, match="in time"):
        await leader.hold()
    assert loop.time() - began <= QUICK.renew_deadline
    assert not leader.is_leader


async def test_a_leader_whose_lease_names_another_stops_at_once() -> None:
    """Somebody wrote it by hand."""
    leases = FakeServer()
    leader = candidate(leases, "one")
    await leader.acquire()
    leases.put("lease", "ns", spec={"holderIdentity": "other", "leaseDurationSeconds": 15})
    with pytest.raises(LeaderLost, match="held by other"):
        await leader.hold()


async def test_giving_back_does_not_wait_for_a_server_that_is_away() -> None:
    """Nor take away what another holds by now."""
    leases, loop = FakeServer(), asyncio.get_running_loop()
    leader = candidate(leases, "one")
    await leader.acquire()
    leader._client.server.failure = Disconnected("away")  # type: ignore[attr-defined]
    began = loop.time()
    await leader.release()
    assert loop.time() - began <= QUICK.release_timeout
    leader._client.server.failure = None  # type: ignore[attr-defined]
    leases.put("lease", "ns", spec={"holderIdentity": "other", "leaseDurationSeconds": 15})
    await leader.release()
    assert spec(leases)["holderIdentity"] == "other"


def test_every_process_has_a_name_of_its_own() -> None:
    """Two in one pod too."""
    assert identity() != identity()


async def test_f08_a_renewal_that_was_cut_short_does_not_keep_the_lease() -> None:
    """It was carried out, and its answer never came: the version is another than the one last seen."""
    leases = FakeServer()
    leader = candidate(leases, "one")
    await leader.acquire()
    leases.put("lease", "ns", spec=spec(leases))
    await leader.release()
    assert spec(leases).get("holderIdentity", "") == ""
