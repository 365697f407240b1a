"""The command line against the real API server: what a user sees, also when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hanei.crd.definition import definition
from hanei.plan.explore import sample_of
from tests.system import world as w

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def hanei(
    world: w.World, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `hanei` as a user of the test's namespace."""
    command = [sys.executable, "-m", "hanei.cli.main", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or world.cluster.kubeconfig)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, input=stdin, check=False, cwd=w.ROOT
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def lock(spec: dict[str, Any], name: str = "lock") -> str:
    return yaml.safe_dump(
        {"apiVersion": "autolock.takuteh.uk/v1alpha1", "kind": "Autolock", "metadata": {"name": name}, "spec": spec}
    )


def test_plan_get_and_apply_tell_the_same_story(world: w.World, operator: w.Operator, tmp_path: Path) -> None:
    """New, unchanged, changed: plan before, apply, get after."""
    app, where = ("--app", "autolock.app:app"), ("-n", world.namespace)
    file = tmp_path / "lock.yaml"
    file.write_text(lock(sample_of(w.autolock)))
    new = hanei(world, "plan", "-f", str(file), "--exit-code", "-o", "json", *app, *where)
    assert new.returncode == 3
    assert {action["effect"] for action in json.loads(new.stdout)["actions"]} == {"create"}
    assert "created" in hanei(world, "apply", "-f", str(file), *app, *where).stdout
    world.ready(w.autolock, "lock")
    same = hanei(world, "plan", "-f", str(file), "--exit-code", *app, *where)
    assert (same.returncode, "restart" in same.stdout) == (0, False)
    assert "unchanged" in hanei(world, "apply", "-f", str(file), *app, *where).stdout
    one = hanei(
        world,
        "plan",
        "lock",
        "--set",
        "main.config.main.timeout_seq=60",
        "--set",
        "webapp.replicas=5",
        "-o",
        "json",
        *app,
        *where,
    )
    assert json.loads(one.stdout)["actions"] == [
        {
            "component": "main",
            "effect": "restart",
            "reason": "settings changed",
            "settings": ["main.config.main.timeout_seq"],
        },
        {"component": "webapp", "effect": "scale", "reason": "settings changed", "settings": ["webapp.replicas"]},
    ]
    rows = json.loads(hanei(world, "get", "lock", "-o", "json", *app, *where).stdout)
    assert [row["name"] for row in rows["status"]["components"]] == list(w.autolock.components)
    table = hanei(world, "get", *app, *where).stdout
    assert "webhook" in table
    assert "3/3" in table


def test_get_waits_for_nothing_and_says_when_there_is_nothing(world: w.World) -> None:
    """An empty namespace is no error; an unknown name is."""
    empty = hanei(world, "get", "--app", "ochacafe.app:app", "-n", world.namespace)
    assert (empty.returncode, "No resources" in empty.stderr) == (0, True)
    gone = hanei(world, "get", "nobody", "--app", "ochacafe.app:app", "-n", world.namespace)
    assert (gone.returncode, "nobody" in gone.stderr) == (2, True)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "out of range": (
        {"main": {"image": "x", "config": {"main": {"timeout_seq": -1}}}},
        "spec.main.config.main.timeout_seq",
    ),
    "wrong choice": ({"main": {"image": "x", "config": {"main": {"rotate_direction": "up"}}}}, "rotate_direction"),
    "image left empty": ({"main": {"image": ""}}, "spec.main.image"),
    "image left out": ({"main": {}}, "spec.main.image"),
    "null image": ({"mqtt": {"image": None}}, "spec.mqtt.image"),
    "unknown setting": ({"main": {"image": "x", "replica": 1}}, "did you mean replicas"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_is_refused_with_the_field_and_nothing_is_written(
    world: w.World, tmp_path: Path, case: str
) -> None:
    """plan and apply name file, resource and field; exit code 2; nothing half-done."""
    change, named = BAD[case]
    spec = sample_of(w.autolock) | {key: {**sample_of(w.autolock)[key], **value} for key, value in change.items()}
    if case == "image left out":
        del spec["main"]["image"]
    good, bad = lock(sample_of(w.autolock), "good"), lock(spec, "bad")
    file = tmp_path / "locks.yaml"
    file.write_text(f"{good}---\n{bad}")
    for command in ("plan", "apply"):
        done = hanei(world, command, "-f", str(file), "--app", "autolock.app:app", "-n", world.namespace)
        assert done.returncode == 2, done.stderr
        assert named in done.stderr
        assert "locks.yaml" in done.stderr
        assert "bad" in done.stderr
    assert world.list(w.autolock.kind) == []


def test_the_earlier_sample_with_an_empty_image_is_refused_by_the_server_too(world: w.World) -> None:
    """`mqtt.image: null` and no `webapp.image`: the API server names both fields."""
    spec = sample_of(w.autolock)
    spec["mqtt"] = {**spec["mqtt"], "image": None}
    spec["webapp"] = {key: value for key, value in spec["webapp"].items() if key != "image"}
    body = {"apiVersion": w.autolock.kind.api_version, "kind": "Autolock", "metadata": {"name": "old"}, "spec": spec}
    status, answer = world.request("POST", w.autolock.kind.path(world.namespace), body)
    assert status == 422
    assert "spec.mqtt.image" in answer["message"]
    assert "spec.webapp.image" in answer["message"]


def test_an_unreachable_server_a_missing_kubeconfig_and_missing_rights_are_told_plainly(
    world: w.World, tmp_path: Path
) -> None:
    """Each message says what was asked and what to do; no traceback."""
    app = ("--app", "ochacafe.app:app")
    missing = hanei(world, "get", "--kubeconfig", str(tmp_path / "none"), *app)
    assert (missing.returncode, "none" in missing.stderr) == (2, True)
    config = yaml.safe_load(world.cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = tmp_path / "away.kubeconfig"
    away.write_text(yaml.safe_dump(config))
    unreachable = hanei(world, "get", *app, kubeconfig=away)
    assert (unreachable.returncode, "127.0.0.1:1" in unreachable.stderr) == (1, True)
    world.create(w.kinds.SERVICE_ACCOUNT, {"metadata": {"name": "nobody"}})
    nobody = w.account_kubeconfig(world.cluster, world.namespace, "nobody", tmp_path)
    forbidden = hanei(
        world,
        "plan",
        "-f",
        "-",
        *app,
        kubeconfig=nobody,
        stdin="apiVersion: ochacafe.oracle.com/v1alpha1\nkind: Ochacafe\nmetadata: {name: a}\nspec: {size: 1, image: x}\n",
    )
    assert (forbidden.returncode, "cannot" in forbidden.stderr and "ochacaves" in forbidden.stderr) == (1, True)


def test_a_crd_that_is_missing_is_said_with_the_command_that_helps(world: w.World) -> None:
    """The kind is unknown to the cluster: apply `hanei crd` first."""
    done = hanei(world, "get", "--app", "tests.apps.unknown:app")
    assert done.returncode == 2
    assert "hanei crd | kubectl apply" in done.stderr


def test_crd_diff_says_what_would_break_in_stored_resources(world: w.World) -> None:
    """Against the cluster's CRD: none for the same version; a stored resource that a narrower app would refuse is named."""
    same = hanei(world, "crd", "--diff", "--app", "ochacafe.app:app")
    assert same.returncode == 0, same.stdout
    world.resource(w.ochacafe, "large", {"size": 50, "image": "nginx"})
    narrower = hanei(world, "crd", "--diff", "--app", "tests.apps.narrow:app")
    assert narrower.returncode == 1
    assert "maximum None becomes 10" in narrower.stdout
    assert f"{world.namespace}/large: spec.size" in narrower.stdout


def test_a_crd_owned_by_someone_else_is_left_to_kubectl(world: w.World) -> None:
    """hanei never writes a CRD: `hanei apply -f crd.yaml` is refused with the way to go."""
    done = hanei(world, "apply", "-f", "-", "--app", "ochacafe.app:app", stdin=yaml.safe_dump(definition(w.ochacafe)))
    assert done.returncode == 2
    assert "kubectl apply" in done.stderr


def test_ochacafe_size_aaa_is_refused_with_field_and_type(world: w.World) -> None:
    """The teaching example's own error."""
    body = {
        "apiVersion": w.ochacafe.kind.api_version,
        "kind": "Ochacafe",
        "metadata": {"name": "a"},
        "spec": {"size": "aaa", "image": "nginx"},
    }
    status, answer = world.request("POST", w.ochacafe.kind.path(world.namespace), body)
    assert status == 422
    assert (
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"' in answer["message"]
    )


def test_ochacafe_carries_image_changes_scales_and_lists_its_pods(world: w.World, operator: w.Operator) -> None:
    """The original's known fault is gone; `status.nodes` holds the pods' names; `kubectl scale` works."""
    world.resource(w.ochacafe, "cafe", {"size": 2, "image": "nginx"})
    found = world.ready(w.ochacafe, "cafe")
    assert set(found["status"]["nodes"]) == set(world.pods("cafe", "cafe").values())
    world.patch(w.ochacafe.kind, "cafe", {"spec": {"image": "other"}})
    world.ready(w.ochacafe, "cafe")
    assert world.get(w.kinds.DEPLOYMENT, "cafe")["spec"]["template"]["spec"]["containers"][0]["image"] == "other"
    world.patch(w.ochacafe.kind, "cafe", {"spec": {"replicas": 4}}, subresource="scale")
    found = world.ready(w.ochacafe, "cafe")
    assert (found["spec"]["size"], found["status"]["replicas"], len(found["status"]["nodes"])) == (4, 4, 4)
    selector = found["status"]["selector"]
    assert len(world.list(w.kinds.POD, selector.replace("=", "%3D").replace(",", "%2C").replace("/", "%2F"))) == 4


def test_autolock_says_that_one_broker_runs_whatever_the_number(world: w.World, operator: w.Operator) -> None:
    """`mqtt.replicas: 3` stays valid; one broker runs, and status says so."""
    world.resource(w.autolock, "lock", sample_of(w.autolock))
    found = world.ready(w.autolock, "lock")
    assert len(world.pods("mqtt", "lock")) == 1
    assert "mqtt.replicas is 3" in found["status"]["notes"][0]


def test_two_autolocks_share_a_namespace(world: w.World, operator: w.Operator) -> None:
    """Upstream allows one per namespace; here a second one lives beside the first."""
    for name in ("front", "back"):
        world.resource(w.autolock, name, sample_of(w.autolock))
    for name in ("front", "back"):
        world.ready(w.autolock, name)
    config = next(item for item in world.list(w.kinds.CONFIG_MAP) if item["metadata"]["name"].startswith("back-main-"))
    assert json.loads(next(iter(config["data"].values())))["mqtt"]["broker_address"] == "back-mqtt"
