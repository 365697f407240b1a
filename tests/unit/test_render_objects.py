"""Rendering: stable bytes, what the component hash depends on, and names. Golden files hold the bytes still."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from autolock.app import app as autolock
from hanei import (
    App,
    Claim,
    Container,
    Deployment,
    FieldRef,
    HostPath,
    Own,
    Port,
    Probe,
    Scratch,
    Service,
    Settings,
    StatefulSet,
    as_env,
    as_ini,
    as_json,
    as_yaml,
    secret,
    setting,
)
from hanei.app import names
from hanei.errors import AppError
from hanei.plan.explore import sample_of
from hanei.render import labels
from hanei.render.model import RenderedComponent, Role, SecretsView
from hanei.render.render import own_of, render
from ochacafe.app import app as ochacafe

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


class Spec(Settings):
    """What the test app reads."""

    text: str = setting("a")
    flag: bool = setting(False)


def one(
    component: Any, spec: Spec | None = None, *, name: str = "res", secrets: SecretsView | None = None
) -> RenderedComponent:
    """A component of its own app, rendered."""
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("web")(component)
    found = render(app, spec or Spec(), own_of(app, name, "default", "u1"), secrets or SecretsView())["web"]
    assert found.error is None, found.error
    return found


def web(**options: Any) -> Any:
    return lambda spec, own: Deployment(containers=[Container(image="nginx", **options)])


def pod_of(found: RenderedComponent) -> dict[str, Any]:
    """The spec of the pod template."""
    assert found.workload is not None
    spec: dict[str, Any] = found.workload.body["spec"]["template"]["spec"]
    return spec


def everything(spec: Spec, own: Own) -> StatefulSet:
    """Every feature of the typed values."""
    main = Container(
        image="nginx", command=("run",), args=("--all",),
        env={"TEXT": spec.text, "FLAG": spec.flag, "NUMBER": 7, "POD": FieldRef(path="metadata.name"), "PASSWORD": secret("s", "password")},
        files={"/etc/app/config.json": as_json(spec), "/etc/app/blob": b"\xff\x00"}, live_files={"/live/motd": "hello"},
        secret_files={"/run/token": secret("s", "token"), "/live/key": secret("s", "key")}, ports=(80, Port(number=53, name="dns", protocol="UDP")),
        volumes={"/tmp": Scratch(size="1Gi"), "/dev/gpio": HostPath(path="/dev/gpiomem", type="CharDevice")},
        ready=Probe(path="/readyz"), live=Probe(command=("true",)), startup=Probe(port=80, failures=30), requests={"cpu": "100m"}, limits={"memory": "64Mi"}, restricted=True,
    )  # fmt: skip
    init = Container(image="busybox", files={"/etc/init.conf": "x"}, restricted=True)
    return StatefulSet(
        containers=(main,), init=(init,), replicas=2, claims=(Claim(size="1Gi", mount="/data"),), services=(Service(ports=(80, 443), name="public", type="NodePort"),),
        labels={"team": "a"}, annotations={"note": "b"}, node_selector={"disk": "ssd"}, grace_seconds=5,
        overlay={"spec": {"minReadySeconds": 3, "template": {"spec": {"hostNetwork": True, "containers": [{"name": "web", "tty": True}]}}}},
    )  # fmt: skip


def golden_cases() -> dict[str, Any]:
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("web")(everything)
    return {
        "ochacafe": (ochacafe, sample_of(ochacafe)),
        "autolock": (autolock, sample_of(autolock)),
        "everything": (app, {}),
    }


@pytest.mark.parametrize("case", ["ochacafe", "autolock", "everything"])
def test_rendering_is_stable_byte_for_byte(case: str) -> None:
    """Across versions of Hanei and Python. A wanted change is written with HANEI_GOLDEN=1, and seen in review."""
    app, spec = golden_cases()[case]
    found = render(app, app.parse(spec), own_of(app, "sample", "default", "uid"))
    assert not found.errors
    text = "---\n".join(
        yaml.safe_dump(json.loads(json.dumps(item.body)), allow_unicode=True)
        for component in found.components
        for item in component.objects
    )
    target = GOLDEN / f"{case}.yaml"
    if os.environ.get("HANEI_GOLDEN"):
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    assert text == target.read_text(encoding="utf-8")


SAME: dict[str, tuple[Any, Any]] = {
    "the order of env": (web(env={"A": "1", "B": "2"}), lambda: one(web(env={"B": "2", "A": "1"}))),
    "the content of a live file": (web(live_files={"/a/b": "1"}), lambda: one(web(live_files={"/a/b": "2"}))),
    "replicas": (web(), lambda: one(lambda spec, own: Deployment(replicas=9, containers=[Container(image="nginx")]))),
    "a Service": (
        web(ports=[80]),
        lambda: one(lambda spec, own: Deployment(service=[80], containers=[Container(image="nginx", ports=[80])])),
    ),
}
OTHER = {
    "an image": web(),
    "a file's content": web(files={"/etc/a": "1"}),
    "a file's path": web(files={"/etc/b": "1"}),
    "an environment variable": web(env={"A": "1"}),
    "another live file": web(live_files={"/a/b": "1"}),
    "an init container's file": lambda spec, own: Deployment(init=[Container(image="i", files={"/a": "1"})], containers=[Container(image="nginx")]),
    "an overlay of the template": lambda spec, own: Deployment(overlay={"spec": {"template": {"spec": {"hostNetwork": True}}}}, containers=[Container(image="nginx")]),
    "a reference to a Secret": web(env={"A": secret("s", "k")}),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_the_hash_does_not_depend_on(case: str) -> None:
    """What no pod can see, or sees in place, restarts nothing."""
    component, other = SAME[case]
    assert one(component).hash == other().hash


def test_s11_the_hash_depends_on_everything_that_a_pod_is_made_from() -> None:
    """Init containers count; all these differ from each other."""
    hashes = {case: one(component).hash for case, component in OTHER.items()}
    assert len(set(hashes.values())) == len(hashes)


def test_s14_hashes_are_equal_in_another_process_with_another_hash_seed() -> None:
    """Canonical serialisation: nothing depends on PYTHONHASHSEED or on the order of insertion."""
    code = "from autolock.app import app; from hanei.plan.explore import rendered_sample; print(*[c.hash for c in rendered_sample(app).components])"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(found) == 1


def test_s15_the_hash_is_over_what_is_rendered_never_over_an_api_object() -> None:
    """Owner, uid and digest annotations are not in it."""
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("web")(everything)
    hashes = {render(app, Spec(), own_of(app, "res", "default", uid))["web"].hash for uid in ("", "one", "two")}
    assert len(hashes) == 1


def test_s19_an_explicit_default_is_the_same_as_none() -> None:
    """Settings are parsed before they are rendered."""
    explicit = autolock.parse(sample_of(autolock))
    spec = sample_of(autolock)
    spare = autolock.parse(
        {**spec, "main": {**spec["main"], "config": {"mqtt": {"broker_address": "autolock-mqtt-broker"}}}}
    )
    own = own_of(autolock, "a", "default")
    assert [item.hash for item in render(autolock, explicit, own).components] == [
        item.hash for item in render(autolock, spare, own).components
    ]


def test_s55_the_selector_holds_names_only() -> None:
    """No version, no hash: it is frozen for the life of the workload."""
    found = one(web())
    assert found.workload is not None
    assert found.workload.body["spec"]["selector"] == {
        "matchLabels": {labels.APP: "things.a.example.com", labels.WORKLOAD: "res-web"}
    }


def test_s59_other_content_has_another_name_and_a_slice_is_immutable() -> None:
    """A slice's name is its content; nothing is ever re-created under a name with other content."""
    first, second = one(web(files={"/a": "1"})), one(web(files={"/a": "2"}))
    slices = [next(item for item in found.objects if item.role is Role.SLICE) for found in (first, second)]
    assert slices[0].name != slices[1].name
    assert all(item.body["immutable"] for item in slices)


def test_s62_s63_s65_text_forms_keep_what_was_written() -> None:
    """Leading zeros stay, Python's True never leaks, UTF-8 is kept byte for byte."""
    value = {"pin": "0340914", "on": True, "n": 5, "f": 0.5, "ja": "反映\u00e9e\u0301"}
    assert json.loads(as_json(value)) == value
    assert "反映" in as_json(value)
    assert "True" not in as_json(value) + as_yaml(value) + as_env(value) + as_ini({"s": value})
    assert yaml.safe_load(as_yaml(value)) == value
    assert as_env({"A": "0340914", "B": True, "C": "it's"}) == "A=0340914\nB=true\nC='it'\\''s'\n"
    assert as_ini({"s": {"b": False, "a": [1, 2]}}) == "[s]\na = 1,2\nb = false\n\n"
    env = pod_of(one(web(env={"PIN": "0340914", "ON": True, "N": 5})))["containers"][0]["env"]
    assert env == [{"name": "N", "value": "5"}, {"name": "ON", "value": "true"}, {"name": "PIN", "value": "0340914"}]
    content = next(item for item in one(web(files={"/a": value["ja"]})).objects if item.role is Role.SLICE)
    assert content.body["data"] == {"a": value["ja"]}
    with pytest.raises(AppError, match="line break"):
        as_env({"A": "1\n2"})


def test_s66_too_much_for_a_configmap_is_refused_with_size_and_component() -> None:
    """Nothing is rendered for the component: nothing half-made."""
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("web")(web(files={"/small": "x", "/large": "x" * 1_200_000}))
    found = render(app, Spec(), own_of(app, "res", "default"))["web"]
    assert found.objects == ()
    assert "component web (tests.unit.test_render_objects): files: 1,200," in str(found.error)
    assert "largest: large" in str(found.error)


def test_s73_hashes_have_enough_digits() -> None:
    """128 bits for the component hash, 64 in the name of a slice beside the digest of its content."""
    found = one(web(files={"/a": "1"}))
    assert re.fullmatch("[0-9a-f]{32}", found.hash)
    slice_ = next(item for item in found.objects if item.role is Role.SLICE)
    assert re.fullmatch("res-web-[0-9a-f]{16}", slice_.name)
    assert re.fullmatch("[0-9a-f]{32}", slice_.digest)


@pytest.mark.parametrize(
    "name", ["a", "a" * 253, "1starts-with-a-digit", "with.dots", "a-" * 30 + "z", ".".join(["x" * 60] * 4)]
)
def test_s47_every_name_and_label_is_one_that_the_server_takes(name: str) -> None:
    """Workloads, Services, ConfigMaps, and labels of at most 63 characters; different resources never meet."""
    label, subdomain = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"), re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
    for app in (autolock, ochacafe):
        for component in render(app, app.parse(sample_of(app)), own_of(app, name, "default")).components:
            for item in component.objects:
                assert subdomain.fullmatch(item.name)
                assert len(item.name) <= (63 if item.kind.kind == "Service" else 253)
                assert item.kind.kind != "Service" or label.fullmatch(item.name)
                for value in item.body["metadata"]["labels"].values():
                    assert len(value) <= 63
            assert component.workload is None or len(component.workload.name) <= 52
    assert names.child(name, "web") != names.child(f"{name}x", "web")


def test_a_folder_with_a_live_file_is_one_projected_volume() -> None:
    """Live, versioned and secret files of one folder come in one mount; a versioned file elsewhere is mounted singly."""
    found = one(
        web(
            live_files={"/etc/app/live": "1"},
            files={"/etc/app/fixed": "2", "/etc/other/file": "3"},
            secret_files={"/etc/app/key": secret("s", "k")},
        )
    )
    spec = pod_of(found)
    mounts = spec["containers"][0]["volumeMounts"]
    assert sorted(mount["mountPath"] for mount in mounts) == ["/etc/app", "/etc/other/file"]
    projected = next(volume for volume in spec["volumes"] if "projected" in volume)["projected"]["sources"]
    assert {next(iter(source)) for source in projected} == {"configMap", "secret"}
    live = next(item for item in found.objects if item.role is Role.LIVE)
    assert live.name == f"res-web-live-{found.hash[:16]}"


def view(live: str = "", value: str = "v1", live_hash: str = "", key: str = "k1") -> SecretsView:
    return SecretsView({("s", "k"): {key: value}}, key, {"web": live} if live else {}, {"web": live_hash})


def test_a_secret_is_stamped_and_a_rotation_changes_exactly_its_users() -> None:
    """Known: stamped. Rotated: another stamp. Unknown: the live stamp stays. A new HMAC key alone changes nothing."""
    user = web(env={"A": secret("s", "k")})
    first = one(user, secrets=view())
    assert first.stamp.startswith("k1:")
    steady = one(user, secrets=view(live=first.stamp, live_hash=first.hash))
    assert (steady.stamp, steady.hash) == (first.stamp, first.hash)
    rotated = one(user, secrets=view(live=first.stamp, value="v2", live_hash=first.hash))
    assert rotated.hash != first.hash
    unknown = one(user, secrets=SecretsView({}, "k1", {"web": first.stamp}, {"web": first.hash}))
    assert (unknown.stamp, unknown.hash, len(unknown.unknown_secrets)) == (first.stamp, first.hash, 1)
    both = SecretsView({("s", "k"): {"k2": "w1", "k1": "v1"}}, "k2", {"web": first.stamp}, {"web": first.hash})
    assert one(user, secrets=both).stamp == first.stamp
    real_change = one(web(env={"A": secret("s", "k"), "B": "new"}), secrets=both)
    assert real_change.stamp.startswith("k2:")
    assert one(user).stamp == "unknown"
    assert one(web(), secrets=view(value="v2")).hash == one(web()).hash


def test_pods_are_hardened_by_default() -> None:
    """An image that the user chooses gets what cannot break it; one that we build the strict context."""
    plain = pod_of(one(web()))
    assert plain["automountServiceAccountToken"] is False
    assert plain["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert plain["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    strict = pod_of(one(web(restricted=True)))
    assert strict["securityContext"]["runAsNonRoot"] is True
    assert strict["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
