"""Drift by ownership, for every kind that Hanei applies and every leaf of it: found, and mended with one write.

No operator runs here: each step asks the operator's own plan and carries it out with the operator's own writer, so that
"one write" can be counted. The resource is suspended and only owns the objects.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest

from hanei import App, Container, Deployment, Kind, Own, Port, Scratch, Settings, kinds, setting
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.kube.errors import Invalid
from hanei.operator.apply import Writer
from hanei.operator.gather import gather, with_named
from hanei.operator.live import snapshot
from hanei.plan.decide import Question, decide
from hanei.plan.explore import kinds_of, sample_of
from hanei.render.render import own_of, render
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hanei.cluster import Cluster
    from hanei.plan.model import Plan, Write
    from hanei.runtime.store import Cached

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

OBJECTS = [
    ("Deployment", "-main"), ("StatefulSet", "-mqtt"), ("Service", "-webapp"),
    ("Ingress", "-webapp"), ("ServiceAccount", "-webapp"), ("Role", "-webapp"), ("RoleBinding", "-webapp"), ("ConfigMap", "-main-"),
    ("ConfigMap", "-authdb-live-"),
]  # fmt: skip


class Nowhere:
    """Stands where the operator remembers its own writes: here every pass lists anew."""

    def wrote(self, kind: Kind, raw: bytes) -> Cached | None:
        return None

    def deleted(self, kind: Kind, key: tuple[str, str], uid: str) -> None:
        return None


@dataclass
class Hand:
    """Plans and writes for one resource, one step at a time."""

    client: Client
    app: App[Any]
    own: Own
    spec: dict[str, Any]

    async def plan(self) -> Plan:
        made = kinds_of(self.app)
        sources = await snapshot(self.client, self.app, self.own.namespace, made)
        rendered = render(self.app, self.app.parse(self.spec), self.own, allowed=made)
        observed = with_named(sources, self.own, gather(sources, self.own), rendered)
        return decide(
            Question(
                rendered,
                observed,
                self.own,
                self.spec,
                self.spec,
                lambda spec: render(self.app, self.app.parse(spec), self.own),
                declared=frozenset(self.app.components),
            )
        )

    async def carry_out(self, plan: Plan) -> list[Write]:
        outcome = await Writer(self.client, Nowhere(), lambda: True).carry_out(plan, self.own)  # type: ignore[arg-type]
        assert outcome.clean, outcome
        return outcome.written

    async def settle(self) -> None:
        await self.carry_out(await self.plan())
        assert (await self.plan()).empty


@asynccontextmanager
async def hand(
    cluster: Cluster, world: w.World, app: App[Any], name: str, spec: dict[str, Any] | None = None
) -> AsyncIterator[Hand]:
    """A suspended resource with everything applied once."""
    wanted = spec if spec is not None else sample_of(app)
    made = world.resource(app, name, {**wanted, "suspend": True})
    async with Client(load(cluster.kubeconfig)) as client:
        found = Hand(client, app, own_of(app, name, world.namespace, made["metadata"]["uid"]), wanted)
        await found.settle()
        yield found


def leaves(wanted: Any, live: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """(JSON pointer into the live object, our value) of every leaf that we apply."""
    if isinstance(wanted, dict):
        for key, item in wanted.items():
            if pointer == "" and key in ("apiVersion", "kind"):
                continue
            if pointer == "/metadata" and key in ("name", "namespace", "uid"):
                continue
            if isinstance(live, dict) and key in live:
                yield from leaves(item, live[key], f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(wanted, list):
        for item in wanted:
            index = next(number for number, present in enumerate(live) if matches(item, present))
            yield from leaves(item, live[index], f"{pointer}/{index}")
    else:
        yield pointer, wanted


def matches(item: Any, present: Any) -> bool:
    if not isinstance(item, dict):
        return bool(item == present)
    keys = [key for key in ("name", "mountPath", "containerPort", "port", "uid", "key") if key in item] or [
        key for key, value in item.items() if not isinstance(value, dict | list)
    ]
    return all(present.get(key) == item[key] for key in keys) if keys else True


def alternatives(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    fixed = {
        "RollingUpdate": ["Recreate", "OnDelete"],
        "TCP": ["UDP"],
        "Prefix": ["Exact"],
        "ClusterIP": ["NodePort"],
        "RuntimeDefault": ["Unconfined"],
        "/": ["/other"],
    }
    return [*fixed.get(value, ()), f"{value}x", f"{value}-x", "x"]


async def change(client: Client, write: tuple[Kind, str, str], patch: list[dict[str, Any]]) -> bool:
    """One JSON patch by another manager; whether the server took it and something changed."""
    kind, namespace, name = write
    before = json.loads(await client.get(kind, namespace, name))["metadata"]["resourceVersion"]
    body = json.dumps(patch).encode()
    try:
        answer = await client.request(
            "PATCH",
            kind.path(namespace, name),
            params={"fieldManager": "rival"},
            body=body,
            content_type="application/json-patch+json",
        )
    except Invalid:  # an immutable or required field
        return False
    return bool(json.loads(answer)["metadata"]["resourceVersion"] != before)


@pytest.mark.parametrize(("kind_name", "suffix"), OBJECTS)
async def test_each_leaf_changed_or_removed_is_mended_with_one_write(
    cluster: Cluster, world: w.World, kind_name: str, suffix: str
) -> None:
    """Every leaf of every kind that we apply, the names of list items too; leaves that the server lets nobody change
    are counted apart."""
    async with hand(cluster, world, w.autolock, "drift") as mine:
        wanted = await one_object(mine, kind_name, suffix)
        place = (wanted.kind, world.namespace, wanted.name)
        live = json.loads(await mine.client.get(*place))
        pairs = list(leaves(dict(wanted.body), live))
        results = {
            pointer: await mended(mine, place, pointer, value, pairs)
            for pointer, value in pairs
            if pointer != "/metadata/ownerReferences/0/uid"  # another owner's uid: the collector takes the object
        }
        assert sum(results.values()) >= 3, f"hardly a leaf of {kind_name} could be changed"
        assert [pointer for pointer, done in results.items() if not done and not immutable(kind_name, pointer)] == []


async def mended(
    mine: Hand, place: tuple[Kind, str, str], pointer: str, value: Any, pairs: list[tuple[str, Any]]
) -> bool:
    """Change the leaf in every way that the server takes; each is found and mended by one write. False: it takes none."""
    taken = False
    before = json.loads(await mine.client.get(*place))
    for patch in operations(pointer, value, pairs):
        if taken and patch[0]["op"] == "replace":
            continue  # one other value is enough
        if not await change(mine.client, place, patch):
            continue
        taken = True
        if seen(pairs, json.loads(await mine.client.get(*place))):
            assert (await mine.plan()).empty, (pointer, patch)
            continue  # the server put the same value back by itself: a default
        plan = await mine.plan()
        assert [(write.kind, write.name) for write in plan.writes] == [(place[0], place[2])], (pointer, patch, plan)
        await mine.carry_out(plan)
        assert (await mine.plan()).empty, (pointer, patch)
        after = json.loads(await mine.client.get(*place))
        assert seen(pairs, after), (pointer, patch)
        assert after.get("spec") == before.get("spec"), (pointer, patch)
        assert shadows(after) == [], (pointer, patch)
    return taken


def seen(pairs: list[tuple[str, Any]], live: Any) -> bool:
    """Whether every leaf of ours has our value in the live object, at the place where it was."""
    return all(resolved(live, pointer) == value for pointer, value in pairs)


def resolved(node: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, dict) else None
    return node


def shadows(live: Any) -> list[str]:
    """Managers that own what is ours, and would keep it when we give it up."""
    entries = live["metadata"]["managedFields"]
    return [
        entry["manager"]
        for entry in entries
        if entry["operation"] == "Update" and entry["manager"] in ("hanei", "before-first-apply")
    ]


async def one_object(mine: Hand, kind_name: str, suffix: str) -> Any:
    plan = await mine.plan()
    return next(
        item
        for ref, item in plan.wanted.items()
        if ref[0] == kind_name and f"drift{suffix}" in ref[1] and (suffix != "-main-" or "-live-" not in ref[1])
    )


def operations(pointer: str, value: Any, pairs: list[tuple[str, Any]]) -> list[list[dict[str, Any]]]:
    """Ways to change or remove a leaf, with what the server wants to be changed with it."""
    if pointer == "/spec/strategy/type":  # its parameters go with it
        return [[{"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}}]]
    if pointer == "/subjects/0/kind":
        user = {"kind": "User", "name": "rival", "apiGroup": "rbac.authorization.k8s.io"}
        return [[{"op": "replace", "path": "/subjects/0", "value": user}]]
    if fnmatch(pointer, "/spec/template/spec/volumes/*/name"):  # those who mount it follow
        mounts = [path for path, name in pairs if fnmatch(path, "*/volumeMounts/*/name") and name == value]
        return [[{"op": "replace", "path": path, "value": "rival"} for path in (pointer, *mounts)]]
    return [
        *([{"op": "replace", "path": pointer, "value": item}] for item in alternatives(value)),
        [{"op": "remove", "path": pointer}],
    ]


def immutable(kind: str, pointer: str) -> bool:
    """Fields that the API server lets nobody change or remove."""
    fixed = {
        "StatefulSet": ("/spec/selector", "/spec/serviceName", "/spec/volumeClaimTemplates", "/spec/podManagementPolicy", "/spec/template/metadata/labels/hanei.dev~1app", "/spec/template/metadata/labels/hanei.dev~1workload"),
        "Deployment": ("/spec/selector", "/spec/template/metadata/labels/hanei.dev~1app", "/spec/template/metadata/labels/hanei.dev~1workload"),
        "RoleBinding": ("/roleRef",),
        "ConfigMap": ("/data", "/immutable"),
    }  # fmt: skip
    if fnmatch(pointer, "*/volumeMounts/*/name"):
        return True  # alone; it is changed with its volume's name
    return pointer.startswith((*fixed.get(kind, ()), "/metadata/ownerReferences"))


async def test_f25_a_leaf_taken_and_given_back_by_another_manager_is_mended_with_one_write(
    cluster: Cluster, world: w.World
) -> None:
    """Another manager applies our field by force, then gives it up: the server removes it, we put it back."""
    async with hand(cluster, world, w.autolock, "drift") as mine:
        cases: list[tuple[str, str, dict[str, Any]]] = [
            ("Deployment", "-main", {"spec": {"replicas": 5}}),
            (
                "Deployment",
                "-main",
                {
                    "spec": {
                        "template": {
                            "spec": {"containers": [{"name": "main", "securityContext": {"privileged": False}}]}
                        }
                    }
                },
            ),
            ("StatefulSet", "-mqtt", {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}}),
            ("Ingress", "-webapp", {"spec": {"ingressClassName": "rival"}}),
            ("Service", "-webapp", {"metadata": {"labels": {"app.kubernetes.io/component": "rival"}}}),
            ("ConfigMap", "-authdb-live-", {"data": {"docker-entrypoint-initdb.d_init.sql": "rival"}}),
        ]
        for kind_name, suffix, body in cases:
            wanted = await one_object(mine, kind_name, suffix)
            full = {"apiVersion": wanted.kind.api_version, "kind": kind_name, **body}
            for step in (full, {"apiVersion": wanted.kind.api_version, "kind": kind_name}):
                await mine.client.apply(
                    wanted.kind, world.namespace, wanted.name, step, force=True, field_manager="rival"
                )
            plan = await mine.plan()
            assert [(write.kind, write.name) for write in plan.writes] == [(wanted.kind, wanted.name)], body
            await mine.carry_out(plan)
            assert (await mine.plan()).empty, body


async def test_entries_that_vanish_heal_with_one_write_per_object(cluster: Cluster, world: w.World) -> None:
    """A restored backup has no managedFields: each object is applied once, and nothing moves."""
    async with hand(cluster, world, w.autolock, "drift") as mine:
        plan = await mine.plan()
        before = {}
        for item in plan.wanted.values():
            raw = await mine.client.merge_patch(
                item.kind, world.namespace, item.name, {"metadata": {"managedFields": [{}]}}
            )
            before[item.ref] = json.loads(raw)["metadata"].get("generation")
        healed = await mine.carry_out(await mine.plan())
        assert len(healed) == len(plan.wanted)
        assert (await mine.plan()).empty
        for item in plan.wanted.values():
            found = json.loads(await mine.client.get(item.kind, world.namespace, item.name))
            assert found["metadata"].get("generation") == before[item.ref], item.ref
            assert shadows(found) == [], item.ref


async def test_what_a_setting_takes_away_goes_after_a_restored_backup_too(cluster: Cluster, world: w.World) -> None:
    """The first apply to an object without entries makes one for all that it has, which would keep it for ever. Once
    made by our apply, once found: another manager's apply came before us."""
    w.install(cluster, dropping)
    async with hand(cluster, world, dropping, "dropping", {"names": ["A", "B", "C"]}) as mine:
        (wanted,) = [item for item in (await mine.plan()).wanted.values() if item.kind == kinds.DEPLOYMENT]
        place = (wanted.kind, world.namespace, wanted.name)

        async def names() -> list[str]:
            pod = json.loads(await mine.client.get(*place))["spec"]["template"]["spec"]
            return [item["name"] for item in pod["containers"][0]["env"]]

        await mine.client.merge_patch(*place, {"metadata": {"managedFields": [{}]}})
        await mine.settle()
        mine.spec = {"names": ["A", "C"]}
        await mine.settle()
        assert await names() == ["A", "C"]
        await mine.client.merge_patch(*place, {"metadata": {"managedFields": [{}]}})
        note = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {"rival": "was here"}}}
        raw = await mine.client.apply(*place, note, force=True, field_manager="rival")
        assert shadows(json.loads(raw)) == ["before-first-apply"]
        await mine.settle()
        mine.spec = {"names": ["C"]}
        await mine.settle()
        assert await names() == ["C"]


class Dropping(Settings):
    """A list of which each value is an environment variable."""

    names: list[str]


dropping = App(
    Dropping,
    group="dropping.hanei.test",
    version="v1",
    kind="Dropping",
    plural="droppings",
    sample={"names": ["A", "B"]},
)


@dropping.component
def worker(spec: Dropping, own: Own) -> Deployment:
    """Reads the names as variables."""
    return Deployment(containers=[Container(image="busybox", env=dict.fromkeys(spec.names, "1"))])


class Rewritten(Settings):
    """One setting, read by everything."""

    image: str = setting(min_length=1)


rewritten = App(
    Rewritten,
    group="rewritten.hanei.test",
    version="v1",
    kind="Rewritten",
    plural="rewrittens",
    sample={"image": "nginx"},
    makes=[kinds.NETWORK_POLICY, kinds.POD_DISRUPTION_BUDGET, kinds.SERVICE, kinds.CONFIG_MAP, kinds.CRON_JOB],
)


@rewritten.component
def odd(spec: Rewritten, own: Own) -> Deployment:
    """Values that the server rewrites: quantities, defaults, protocol, empty maps."""
    pod = {
        "containers": [
            {
                "name": "a",
                "image": spec.image,
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Ki"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "restartPolicy": "Never",
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    return Deployment(
        containers=[Container(image=spec.image, ports=[Port(number=80), 53], limits={"cpu": "1000m", "memory": "1048576"}, requests={"cpu": "0.5"}, volumes={"/tmp": Scratch()})],
        overlay={"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}], "dnsConfig": {}, "hostAliases": []}}, "progressDeadlineSeconds": 600}},
        extra=[
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd-extra", "annotations": {}}, "spec": {"ports": [{"port": 80}], "selector": {}}},
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "odd"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "odd"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd", "labels": {}}, "data": {}},
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "odd"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": pod}}}}},
        ],
    )  # fmt: skip


async def test_a_rewrite_by_the_server_causes_no_write(cluster: Cluster, world: w.World) -> None:
    """`1000m` is stored as `1`, ports get a protocol, empty maps are dropped: none of it is drift."""
    w.install(cluster, rewritten)
    async with hand(cluster, world, rewritten, "rewritten") as mine:
        for _ in range(3):
            plan = await mine.plan()
            assert plan.empty, plan.writes
            await asyncio.sleep(0.2)
