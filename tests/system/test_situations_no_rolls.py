"""Situations B. Rolls that should not happen: `tests/data/situations.tsv`."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from hanei import kinds
from hanei.operator.secrets import KEY_SECRET
from hanei.plan.explore import sample_of
from hanei.render import labels
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import SHOP, generation, new_secret, quiet, rotate, row

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_s15_s27_the_first_deploy_is_revision_one_and_generation_one(world: w.World, operator: w.Operator) -> None:
    """The hash is in the first version of every workload: nothing is written twice."""
    world.create(
        kinds.SECRET, {"metadata": {"name": "autolock-auth-db-secret"}, "stringData": {"MARIADB_PASSWORD": "x"}}
    )
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    world.resource(w.ochacafe, "cafe", {"size": 2, "image": "nginx"})
    world.ready(w.autolock, "lock")
    world.ready(w.ochacafe, "cafe")
    for item in (*world.workloads("lock").values(), *world.workloads("cafe").values()):
        assert item["metadata"]["generation"] == 1, item["metadata"]["name"]
    assert len(world.list(kinds.REPLICA_SET)) == 4


def test_s17_a_change_for_one_component_leaves_the_others_untouched(world: w.World, keeper: w.Operator) -> None:
    """The product's core claim: B's generation and pods do not move."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    others = ("big", "broken", "stateful", "recreated")
    before = {
        name: (item["metadata"]["generation"], set(world.pods(name, "s")))
        for name, item in world.workloads("s").items()
    }
    world.patch(shop.kind, "s", {"spec": {"greeting": "changed"}})
    world.ready(shop, "s")
    after = {
        name: (item["metadata"]["generation"], set(world.pods(name, "s")))
        for name, item in world.workloads("s").items()
    }
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert after["web"] != before["web"]


def test_s18_applying_the_same_settings_twice_writes_nothing(world: w.World, keeper: w.Operator) -> None:
    """Rendering is a function: the same settings are no change."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    quiet(world, 2)
    mark = w.audit_mark(world.cluster)
    world.patch(shop.kind, "s", {"spec": {"greeting": "hello"}})
    time.sleep(2)
    assert w.writes(w.audited(world.cluster, since=mark), world.namespace) == []


def test_s19_an_explicit_default_is_no_change(world: w.World, operator: w.Operator) -> None:
    """Defaults are filled in before hashing: writing one out moves no workload."""
    spec = {
        "main": {"image": "nginx"},
        "webapp": {"image": "nginx"},
        "webhook": {"image": "nginx"},
        "mqtt": {"image": "m"},
        "authdb": {"image": "d", "secretName": "x"},
    }
    world.resource(w.autolock, "lock", spec)
    world.ready(w.autolock, "lock")
    world.patch(w.autolock.kind, "lock", {"spec": {"main": {"replicas": 1, "config": {"main": {"timeout_seq": 300}}}}})
    time.sleep(2)
    assert {item["metadata"]["generation"] for item in world.workloads("lock").values()} == {1}


def test_s21_labels_and_annotations_of_a_secret_roll_nothing(world: w.World, keeper: w.Operator) -> None:
    """Ten changes a second of metadata only: no write at all."""
    new_secret(world)
    world.resource(shop, "s", {"password": "shop-secret"})
    world.ready(shop, "s")
    quiet(world, 2)
    mark = w.audit_mark(world.cluster)
    for number in range(30):
        world.patch(kinds.SECRET, "shop-secret", {"metadata": {"annotations": {"touched": str(number)}}})
        time.sleep(0.1)
    assert w.writes(w.audited(world.cluster, since=mark), world.namespace) == []


def test_s23_a_secret_that_may_not_be_read_is_unknown_and_rolls_nothing(world: w.World, tmp_path: Path) -> None:
    """The right is taken away: nothing is decided from it, the live stamp stays, and status says so."""
    new_secret(world)
    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)) as keeper:
        world.resource(shop, "s", {"password": "shop-secret"})
        world.ready(shop, "s")
        start = generation(world, "s-web")
        w.grant(
            world.cluster,
            [shop],
            world.namespace,
            tmp_path,
            changed=lambda rule: None if "shop-secret" in rule.get("resourceNames", ()) else rule,
        )
        keeper.stop()
        rotate(world, "shop-secret", "two")
        keeper.start()
        w.wait_for("status to say so", lambda: "Secret" in row(world.get(shop.kind, "s"), "web").get("waitsFor", ""))
        assert generation(world, "s-web") == start


def test_s13_an_upgrade_that_renders_differently_is_listed_before_it_happens(
    world: w.World, keeper: w.Operator
) -> None:
    """The next version renders `recreated` differently: its plan says `upgrade` and names no setting."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    command = [
        sys.executable,
        "-m",
        "hanei.cli.main",
        "plan",
        "s",
        "--app",
        "tests.apps.shop_next:app",
        "-n",
        world.namespace,
        "-o",
        "json",
    ]
    environment = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=w.ROOT, check=True)
    found = {action["component"]: action for action in json.loads(done.stdout)["actions"]}
    assert (found["recreated"]["effect"], found["recreated"]["settings"]) == ("recreate", [])
    assert found["recreated"]["reason"].startswith("upgrade")
    assert found["big"]["effect"] == "remove"
    assert set(found) == {"recreated", "big"}


def test_a_new_stamp_key_rolls_nothing_by_itself_and_is_used_at_the_next_change(
    world: w.World, keeper: w.Operator
) -> None:
    """A key is added and named the newest; the operator is restarted; then the Secret's value changes."""

    def stamp() -> str:
        template = world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]
        return str(template["metadata"]["annotations"][labels.SECRETS])

    new_secret(world)
    world.resource(shop, "s", {"password": "shop-secret"})
    world.ready(shop, "s")
    before, start = stamp(), generation(world, "s-web")
    keeper.stop()
    key = base64.b64encode(b"another key of thirty-two bytes.").decode()
    patch = {"metadata": {"annotations": {"hanei.dev/newest": "knew"}}, "data": {"knew": key}}
    world.patch(kinds.SECRET, KEY_SECRET, patch)
    keeper.start()
    world.patch(shop.kind, "s", {"spec": {"replicas": 3}})
    w.wait_for("the operator to work again", lambda: world.get(kinds.DEPLOYMENT, "s-web")["spec"]["replicas"] == 3)
    world.ready(shop, "s")
    assert (stamp(), generation(world, "s-web")) == (before, start + 1)
    rotate(world, "shop-secret", "two")
    w.wait_for("the new stamp", lambda: stamp() != before)
    assert stamp().startswith("knew:")
    assert not before.startswith("knew:")
