"""Every line of `autolock_effects.tsv`, on the cluster: what `plan` says is what happens, pod by pod."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.operator.preview import preview
from hanei.plan.effects import leaves_of, with_value
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system]

TABLE = Path(__file__).parents[1] / "data" / "autolock_effects.tsv"
OTHER = {
    "main.config.main.rotate_direction": "right",
    "webapp.ingress.path": "/app",
    "webhook.ingress.path": "/hook",
    "webapp.ingress.pathType": "Exact",
    "webhook.ingress.pathType": "Exact",
}
SAMPLE = normalise(spec_schema(w.autolock), w.autolock.sample)
GROUPS = 6
"""The table's lines are shared out over so many tests, each with a resource of its own, so that workers can share."""


def table() -> dict[str, dict[str, str]]:
    """setting → component → effect ("-": nothing)."""
    rows = [line.rstrip("\n").split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    components = rows[0][1:]
    return {row[0]: dict(zip(components, row[1:], strict=True)) for row in rows[1:]}


EFFECTS = table()


def other(path: str) -> Any:
    """Another valid value of a setting of the sample."""
    value = dict(leaves_of(SAMPLE))[path]
    if path in OTHER:
        return OTHER[path]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}x"


@dataclass(frozen=True)
class Snapshot:
    """Of every component: its workload's generation, and its pods by uid."""

    generations: dict[str, int]
    hashes: dict[str, str]
    pods: dict[str, frozenset[str]]


@dataclass
class Lock:
    """One Autolock, driven as a user would."""

    world: w.World
    name: str

    def snapshot(self) -> Snapshot:
        found = self.world.workloads(self.name)
        hashes = {
            key: item["spec"]["template"]["metadata"]["labels"]["hanei.dev/settings-hash"]
            for key, item in found.items()
        }
        generations = {key: item["metadata"]["generation"] for key, item in found.items()}
        return Snapshot(generations, hashes, {key: frozenset(self.world.pods(key, self.name)) for key in found})

    def planned(self, spec: dict[str, Any]) -> set[tuple[str, str]]:
        """(component, effect) as `hanei plan` says."""

        async def ask() -> set[tuple[str, str]]:
            async with Client(load(self.world.cluster.kubeconfig)) as client:
                found = await preview(
                    client,
                    w.autolock,
                    self.world.namespace,
                    {
                        "apiVersion": w.autolock.kind.api_version,
                        "kind": "Autolock",
                        "metadata": {"name": self.name},
                        "spec": spec,
                    },
                )
                return {(action.component, action.effect.value) for action in found.plan.actions}

        return w.run_async(ask())

    def change(self, spec: dict[str, Any]) -> None:
        """Save other settings, and wait until they are in force."""
        self.world.patch(w.autolock.kind, self.name, [{"op": "replace", "path": "/spec", "value": spec}], w.JSON_PATCH)
        self.world.ready(w.autolock, self.name)


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[w.World]:
    """A namespace and an operator for all tests of this module in one worker."""
    name = f"effects-{random.randrange(16**8):08x}"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    world = w.World(cluster, name)
    w.wait_for(
        "the default ServiceAccount",
        lambda: cluster.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200,
    )
    for secret in ("autolock-auth-db-secret", "autolock-auth-db-secretx"):
        world.create(
            w.kinds.SECRET,
            {
                "metadata": {"name": secret},
                "stringData": {
                    "MARIADB_ROOT_PASSWORD": "r",
                    "MARIADB_USER": "u",
                    "MARIADB_PASSWORD": secret,
                    "MARIADB_DATABASE": "d",
                },
            },
        )
    folder = tmp_path_factory.mktemp("effects")
    kubeconfig = w.grant(cluster, [w.autolock], name, folder, secrets=("autolock-auth-db-secretx",))
    with w.running(w.Operator(kubeconfig, folder / "operator.log", ("autolock.app:app",))):
        yield world
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")


def expected(paths: list[str]) -> dict[str, set[str]]:
    """component → effects of a change of these settings together, by the table."""
    return {component: {EFFECTS[path][component] for path in paths} - {"-"} for component in EFFECTS[paths[0]]}


def check(before: Snapshot, after: Snapshot, wanted: dict[str, set[str]]) -> None:
    """Exactly the wanted pods were replaced, and nothing else moved."""
    for component, effects in wanted.items():
        old, new = before.pods[component], after.pods[component]
        if "restart" in effects:
            assert not old & new, f"{component}: pods were not replaced: {old & new}"
        elif "scale" in effects:
            assert old < new or new < old, f"{component}: pods were replaced, not only added or removed"
        else:
            assert old == new, f"{component}: pods changed"
        if not effects & {"restart", "scale"}:
            assert before.generations[component] == after.generations[component], (
                f"{component}: its workload was written"
            )


def there_and_back(lock: Lock, paths: list[str]) -> None:
    """A → B → A: planned and seen in both directions, and equal in the end."""
    changed = SAMPLE
    for path in paths:
        changed = with_value(changed, path, other(path))
    wanted = expected(paths)
    said = {(component, effect) for component, effects in wanted.items() for effect in effects}
    start = lock.snapshot()
    assert lock.planned(changed) == said
    lock.change(changed)
    middle = lock.snapshot()
    check(start, middle, wanted)
    assert lock.planned(SAMPLE) == said
    lock.change(SAMPLE)
    end = lock.snapshot()
    check(middle, end, wanted)
    assert end.hashes == start.hashes


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", range(GROUPS))
def test_s91_every_line_of_the_table_is_planned_and_seen_alone_and_in_both_directions(
    place: w.World, group: int
) -> None:
    """Each setting alone, there and back: plan, pods by uid, generations."""
    lock = Lock(place, f"lock-{group}")
    place.resource(w.autolock, lock.name, SAMPLE)
    place.ready(w.autolock, lock.name)
    for path in list(EFFECTS)[group::GROUPS]:
        there_and_back(lock, [path])
    place.delete(w.autolock.kind, lock.name)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(GROUPS))
def test_random_combinations_of_settings_do_what_their_lines_say_together(place: w.World, seed: int) -> None:
    """Thirty-six combinations of two to six settings, there and back."""
    lock = Lock(place, f"mix-{seed}")
    place.resource(w.autolock, lock.name, SAMPLE)
    place.ready(w.autolock, lock.name)
    chance = random.Random(seed)
    for _ in range(6):
        there_and_back(lock, chance.sample(list(EFFECTS), chance.randint(2, 6)))
    place.delete(w.autolock.kind, lock.name)


def test_the_table_names_every_setting_of_the_resource() -> None:
    """No setting is left out of the wanted semantics."""
    assert set(EFFECTS) == {path for path, _ in leaves_of(SAMPLE)}
