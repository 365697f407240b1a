"""Adversarial settings, after Acto: walks over the CRD's own schema. Rows F70, F73 and F74 of `tests/data/faults.tsv`.

Each step sets one setting to another valid, a boundary or an invalid value, as a user with kubectl would. However the
walk went, the end is that of a fresh installation of the last settings (A→B→C equals A→C).
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from hanei.crd.definition import spec_schema
from hanei.plan.effects import leaves_of, with_value
from hanei.plan.explore import others, sample_of, schema_leaves
from tests.fault.life import NAME, Stage, staged
from tests.fault.oracles import end_state, quiet
from tests.fault.test_others import records_apart
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

STEPS = 500 if os.environ.get("HANEI_SOAK") == "1" else 60
REST = 12
"""Steps after which the operator's answer is waited for."""
SCHEMA = spec_schema(w.autolock)
LEAVES = dict(schema_leaves(SCHEMA))
ODD = ("é😀\u2028", "a" * 254, " ", "'; DROP TABLE users; --", "{{.}}", "-1", "null")


def valid(path: str, value: Any, chance: random.Random) -> Any:
    """Another value that may be valid; no more pods than a laptop holds."""
    found = [
        item
        for item in others(LEAVES[path], value)
        if not (path.endswith("replicas") and isinstance(item, int) and item > 5)
    ]
    if LEAVES[path].get("type") == "string" and "enum" not in LEAVES[path]:
        found += ODD
    return chance.choice(found) if found else value


def invalid(path: str, chance: random.Random) -> Any:
    """A value of another type, out of bounds or out of the list."""
    kind = LEAVES[path].get("type")
    wrong: list[Any] = [{"a": 1}, [1]]
    wrong += ["text"] if kind in ("integer", "boolean", "number") else [7] if kind == "string" else []
    if "minimum" in LEAVES[path]:
        wrong.append(LEAVES[path]["minimum"] - 1)
    if "maximum" in LEAVES[path]:
        wrong.append(LEAVES[path]["maximum"] + 1)
    return chance.choice(wrong)


def step(stage: Stage, spec: dict[str, Any], chance: random.Random) -> bool:
    """One edit; whether the server took it. What it refuses it names."""
    path = chance.choice(sorted(LEAVES))
    bad = chance.random() < 0.3
    value = invalid(path, chance) if bad else valid(path, dict(leaves_of(spec)).get(path), chance)
    place = f"{w.autolock.kind.path(stage.world.namespace, NAME)}?fieldManager=walker"
    status, answer = stage.world.request("PATCH", place, {"spec": with_value({}, path, value)}, w.MERGE)
    assert status in (200, 422), answer
    if status == 422:
        assert path.rpartition(".")[2] in answer["message"], (path, value, answer["message"])
    return bool(status == 200)


@pytest.mark.parametrize("seed", range(2))
def test_f70_f73_f74_a_walk_over_the_settings_ends_where_a_fresh_installation_does(
    cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    taken = 0
    with staged(cluster, w.autolock, tmp_path) as stage:
        stage.world.resource(w.autolock, NAME, sample_of(w.autolock))
        stage.world.ready(w.autolock, NAME)
        for number in range(STEPS // 2):
            taken += step(stage, stage.world.get(w.autolock.kind, NAME)["spec"], chance)
            if number % REST == 0:
                w.wait_for("an answer", lambda: w.current(stage.world.get(w.autolock.kind, NAME)))
        last = ended_well(stage)
        stage.world.ready(w.autolock, NAME)
        quiet(stage.world)
        walked = records_apart(end_state(stage.world))
        assert stage.crashes == 0
    assert taken > STEPS // 8
    with staged(cluster, w.autolock, tmp_path) as fresh:
        fresh.world.resource(w.autolock, NAME, last)
        fresh.world.ready(w.autolock, NAME)
        seen = records_apart(end_state(fresh.world))
    assert (set(walked) - set(seen), set(seen) - set(walked)) == (set(), set())


def ended_well(stage: Stage) -> dict[str, Any]:
    """Settings that only the server of a child can refuse get the sample's values again; the spec as it is then."""
    sample = dict(leaves_of(sample_of(w.autolock)))
    risky = [path for path in LEAVES if ".ingress." in path or path.endswith(("image", "secretName", "broker_address"))]
    back: dict[str, Any] = {}
    for path in risky:
        if path in sample:
            back = with_value(back, path, sample[path])
    found = stage.world.patch(w.autolock.kind, NAME, {"spec": back})
    spec: dict[str, Any] = found["spec"]
    return spec
