"""Several operators for one Lease: the leader dies, or is frozen past its Lease and wakes up. `tests/data/faults.tsv`."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from hanei import kinds
from tests.fault.proxy import proxied
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fault.proxy import Proxy

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TUNE = (
    "--tune",
    "lease_duration=3",
    "--tune",
    "renew_deadline=2",
    "--tune",
    "retry_period=0.5",
    "--tune",
    "release_timeout=2",
)
Replica = tuple[w.Operator, "Proxy"]


@contextlib.contextmanager
def replicas(world: w.World, folder: Path, count: int) -> Iterator[list[Replica]]:
    """Operators of one Lease, each behind a proxy of its own that tells what it wrote."""
    kubeconfig = w.grant(world.cluster, [w.ochacafe], world.namespace, folder)
    with contextlib.ExitStack() as stack:
        made: list[Replica] = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir()
            copy = own / "kubeconfig"
            copy.write_bytes(kubeconfig.read_bytes())
            operator = w.Operator(copy, own / "log", ("ochacafe.app:app",), TUNE)
            proxy, operator.kubeconfig = stack.enter_context(proxied(copy, world.cluster.folder / "pki", lambda: None))
            stack.enter_context(w.running(operator))
            made.append((operator, proxy))
        yield made


def leader(found: list[Replica]) -> Replica:
    """Who has written last, as its proxy saw it."""
    wrote = [one for one in found if one[1].writes()]
    assert len(wrote) == 1, "two have written"
    return wrote[0]


def test_f09_another_takes_over_within_the_lease_when_the_leader_is_killed(world: w.World, tmp_path: Path) -> None:
    with replicas(world, tmp_path, 3) as found:
        world.resource(w.ochacafe, "c", {"size": 1, "image": "nginx"})
        world.ready(w.ochacafe, "c")
        first = leader(found)
        assert first[0].process is not None
        first[0].process.send_signal(signal.SIGKILL)
        first[0].process.wait()
        died = time.monotonic()
        world.patch(w.ochacafe.kind, "c", {"spec": {"size": 2}})
        w.wait_for("the change", lambda: world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 2)
        assert time.monotonic() - died < 10
        world.ready(w.ochacafe, "c")
        others = [one for one in found if one is not first]
        leader(others)
        first[0].process = None


def test_f61_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes(
    world: w.World, tmp_path: Path
) -> None:
    with replicas(world, tmp_path, 2) as found:
        world.resource(w.ochacafe, "c", {"size": 1, "image": "nginx"})
        world.ready(w.ochacafe, "c")
        old = leader(found)
        (new,) = (one for one in found if one is not old)
        assert old[0].process is not None
        os.kill(old[0].process.pid, signal.SIGSTOP)
        try:
            old[1].forget()
            world.patch(w.ochacafe.kind, "c", {"spec": {"size": 2}})
            w.wait_for("the other to take over", lambda: bool(new[1].writes()))
            world.patch(w.ochacafe.kind, "c", {"spec": {"size": 3}})
            world.ready(w.ochacafe, "c")
        finally:
            os.kill(old[0].process.pid, signal.SIGCONT)
        time.sleep(4)
        assert [str(seen.call) for seen in old[1].writes()] == []
        assert world.get(kinds.DEPLOYMENT, "c")["spec"]["replicas"] == 3


@pytest.mark.parametrize("moment", [1, 2])
def test_f08_sigterm_in_the_middle_of_a_pass_ends_it_cleanly(world: w.World, tmp_path: Path, moment: int) -> None:
    """While a write waits for its answer: the process ends with 0 in time, gives the Lease back, and another goes on."""
    from tests.fault.rules import Match, Rule, Rules

    with replicas(world, tmp_path, 1) as ((operator, proxy),):
        proxy.rules = Rules([Rule(match=Match(write=moment), delay=1.0)])
        world.resource(w.ochacafe, "c", {"size": 1, "image": "nginx"})
        w.wait_for("the write", lambda: len(proxy.writes()) >= moment)
        began = time.monotonic()
        assert operator.stop(patience=10) == 0
        assert time.monotonic() - began < 5
        lease = world.list(kinds.LEASE)[0]
        assert not lease["spec"].get("holderIdentity")
        operator.start()
        world.ready(w.ochacafe, "c")
        assert len(world.list(kinds.DEPLOYMENT)) == 1
