"""The crash matrix: the operator dies at each write of a life, before it, after it was done, and after its answer.

Every life must end as one without a crash (O1), make and delete each object as often (O2), fall silent (O3), leave
foreign objects alone (O4), say the truth (O7), and end only by the kill (O8). `make test` runs a
spread of it; `make soak` (HANEI_SOAK=1) runs both in full, and pairs.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.fault.life import Lived, autolock_life, live, ochacafe_life
from tests.fault.rules import Match, Rule, Rules
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hanei import App
    from hanei.cluster import Cluster
    from tests.fault.life import Stage
    from tests.fault.proxy import Proxy
    from tests.fault.rules import Moment

pytestmark = [pytest.mark.system, pytest.mark.timeout(7200)]

MOMENTS: tuple[Moment, ...] = ("before", "after", "answered")
SOAK = os.environ.get("HANEI_SOAK") == "1"
AT_ONCE = 4
PAIRS = 50
LIVES: dict[str, tuple[App[Any], Callable[[Stage], None]]] = {
    "ochacafe": (w.ochacafe, ochacafe_life),
    "autolock": (w.autolock, autolock_life),
}
SPREAD = {"ochacafe": 2, "autolock": 11}
"""In `make test`: every how manieth crash of the matrix is run."""

Crash = tuple[tuple[int, "Moment"], ...]


@pytest.mark.parametrize("name", LIVES)
def test_f01_f02_f04_a_crash_at_any_write_changes_nothing_in_the_end(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    """Each write k times each moment; every write is one of children, status or record, so F04's crash is among them."""
    calm = run(cluster, name, (), tmp_path)
    assert calm.crashes == 0
    assert calm.writes >= 6
    matrix: list[Crash] = [((k, moment),) for k in range(1, calm.writes + 1) for moment in MOMENTS]
    compare(cluster, name, calm, matrix[:: 1 if SOAK else SPREAD[name]], tmp_path)


@pytest.mark.parametrize("name", LIVES)
def test_f06_a_second_crash_while_recovering_changes_nothing_either(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    """Pairs of crashes: the second one soon after the first."""
    calm = run(cluster, name, (), tmp_path)
    chance = random.Random(20261201)
    pairs: list[Crash] = []
    for _ in range(PAIRS if SOAK else 4):
        first = chance.randint(1, calm.writes)
        pairs.append(((first, chance.choice(MOMENTS)), (first + chance.randint(1, 3), chance.choice(MOMENTS))))
    compare(cluster, name, calm, pairs, tmp_path)


def compare(cluster: Cluster, name: str, calm: Lived, crashes: list[Crash], folder: Path) -> None:
    """Every life with crashes against the calm one."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lives = list(pool.map(lambda crash: (crash, attempt(cluster, name, crash, folder)), crashes))
    wrong = {crash: told for crash, found in lives if (told := difference(calm, found))}
    assert wrong == {}
    died = sum(found.crashes > 0 for _, found in lives if isinstance(found, Lived))
    # How many status writes a life has depends on the clock, so the last numbers are not reached in every one.
    assert died >= len(crashes) * 0.75, f"only {died} of {len(crashes)} lives had their crash"


def attempt(cluster: Cluster, name: str, crash: Crash, folder: Path) -> Lived | AssertionError:
    try:
        return run(cluster, name, crash, folder)
    except AssertionError as error:
        return error


def difference(calm: Lived, found: Lived | AssertionError) -> str:
    """What is not as in the calm life; empty if nothing."""
    if isinstance(found, AssertionError):
        return f"failed: {str(found)[:2000]}"
    for step, (wanted, seen) in enumerate(zip(calm.states, found.states, strict=True)):
        if wanted != seen:
            lost, more = Counter(wanted) - Counter(seen), Counter(seen) - Counter(wanted)
            return f"O1 after step {step}: missing {list(lost)[:2]}, instead {list(more)[:2]}"
    counts = {
        key: (calm.done[key], found.done[key]) for key in calm.done | found.done if calm.done[key] != found.done[key]
    }
    return f"O2 (calm, with crash): {counts}" if counts else ""


def run(cluster: Cluster, name: str, crash: Crash, folder: Path) -> Lived:
    app, life = LIVES[name]

    def rule(proxy: Proxy) -> None:
        proxy.rules = Rules([Rule(match=Match(write=k), kill=moment) for k, moment in crash])

    return live(cluster, app, life, folder, rule)
