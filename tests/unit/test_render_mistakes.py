"""What an author may not return, and what Hanei makes of the corners of what he may: one row each."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import json
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Any

import pytest
import yaml

from hanei import (
    App,
    Claim,
    Container,
    Deployment,
    ExistingClaim,
    HostPath,
    Ingress,
    Own,
    Port,
    Probe,
    Quantity,
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
from hanei.errors import AppError
from hanei.plan.effects import between
from hanei.plan.model import Effect
from hanei.render.model import RenderedComponent, Role
from hanei.render.render import own_of, render


class Spec(Settings):
    """What the test app reads."""

    text: str = setting("a")


def one(value: Any, *, name: str = "res") -> RenderedComponent:
    """A component that returns this value (or what this function makes of the settings), rendered."""
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")

    @app.component
    def web(spec: Spec, own: Own) -> Any:
        return value

    return render(app, Spec(), own_of(app, name, "default", "u1"))["web"]


def good(value: Any, **options: Any) -> RenderedComponent:
    found = one(value, **options)
    assert found.error is None, found.error
    return found


def pod(**options: Any) -> Container:
    return Container(image="nginx", **options)


def web(*containers: Container, **options: Any) -> Deployment:
    return Deployment(containers=containers or (pod(),), **options)


def template(found: RenderedComponent) -> dict[str, Any]:
    """The spec of the pod template."""
    assert found.workload is not None
    spec: dict[str, Any] = found.workload.body["spec"]["template"]["spec"]
    return spec


def over(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


EXTRA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
REFUSED: dict[str, tuple[Any, str]] = {
    "two slashes at the beginning of a path": (web(pod(files={"//a": "1"})), "files['//a']: is not an absolute path of a file\nwrite it as '/a'"),
    "a path with dots": (web(pod(files={"/a/../b": "1"})), "files['/a/../b']: is not an absolute path"),
    "a Secret's file at a path that is not plain": (web(pod(secret_files={"/a/": secret("s", "k")})), "secret_files['/a/']"),
    "a Secret's file where a file is": (web(pod(files={"/a": "1"}, secret_files={"/a": secret("s", "k")})), "secret_files['/a']: the path is already taken by files"),
    "a file that is a folder of another": (web(pod(files={"/a": "1", "/a/b": "2"})), "files['/a/b']: '/a' is a file, not a folder"),
    "a live file that hides a system folder": (web(pod(live_files={"/etc/motd": "1"})), "live_files['/etc/motd']: the whole folder '/etc'"),
    "a live file at the root": (web(pod(live_files={"/motd": "1"})), "the whole folder '/' of the container"),
    "a volume inside a live folder": (web(pod(live_files={"/a/b": "1"}, volumes={"/a/c": Scratch()})), "containers[0].volumes: '/a/c' lies in '/a', a folder of live files"),
    "a volume at a live folder": (web(pod(live_files={"/a/b": "1"}, volumes={"/a": Scratch()})), "'/a' is mounted twice"),
    "half a character in a file": (web(pod(files={"/a": "x\ud800"})), "files['/a']: character U+D800 at position 1 is no text"),
    "half a character in an environment": (web(pod(env={"A": "\udfff"})), "containers[0].env['A']: character U+DFFF at position 0"),
    "a variable without a name": (web(pod(env={"": "1"})), "containers[0].env['']: is no name of a variable"),
    "a variable with an equals sign": (web(pod(env={"A=B": "1"})), "containers[0].env['A=B']"),
    "an image with a space": (web(Container(image="nginx ")), "containers[0].image: 'nginx ' begins or ends with a space"),
    "an image that is a space": (web(Container(image=" ")), "containers[0].image: is empty"),
    "an init container without an image": (web(init=(Container(image=""),)), "init[0].image: is empty"),
    "a path twice in an init container": (web(init=(pod(files={"/a": "1"}, live_files={"/a": "2"}),)), "live_files['/a']: the path is already taken by files"),
    "two init containers of one name": (web(init=(pod(name="x"), pod(name="x"))), "init[1].name: two containers are named 'x'"),
    "a port twice": (web(pod(ports=(80, 80))), "containers[0].ports: port 80 is named twice"),
    "a port's name twice": (web(service=(Port(number=1, name="a"), Port(number=2, name="a"))), "service: port a is named twice"),
    "a port out of range": (web(pod(ports=(70000,))), "containers[0].ports: 70000 is no port"),
    "a Service's port out of range": (web(service=(0,)), "service: 0 is no port"),
    "a probe without a port": (web(pod(ready=Probe(path="/"))), "containers[0].ready.port: there is no port to ask"),
    "two Services without a name": (web(service=(80,), services=(Service(ports=(81,)),)), "services: two Services have no name"),
    "two Services of one name": (web(services=(Service(ports=(1,), name="a"), Service(ports=(2,), name="a"))), "Service 'a' is made twice"),
    "an extra object that is the workload": (web(extra=({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "res-web"}},)), "Deployment 'res-web' is made twice"),
    "an ingress to another Service's port": (web(services=(Service(ports=(80,), name="other"),), ingress=(Ingress(port=80),)), "ingress[0].port: 80 is no port of the component's own Service"),
    "an ingress to nothing": (web(ingress=(Ingress(port=1),)), "ingress[0].port"),
    "an exclusive claim in an init container": (web(init=(pod(volumes={"/d": ExistingClaim(name="c")}),)), "init[0].volumes['/d']: a ReadWriteOnce claim"),
    "an exclusive claim for one pod": (web(pod(volumes={"/d": ExistingClaim(name="c", access="ReadWriteOncePod")})), "a ReadWriteOncePod claim"),
    "two claims of one name": (StatefulSet(containers=(pod(),), claims=(Claim(size="1", mount="/a"), Claim(size="1", mount="/b"))), "claims[1].name: 'data' is already taken"),
    "a claim named like Hanei's volume": (StatefulSet(containers=(pod(),), claims=(Claim(size="1", mount="/a", name="slice"),)), "claims[0].name: 'slice'"),
    "a claim's mount that is not plain": (StatefulSet(containers=(pod(),), claims=(Claim(size="1", mount="/a/"),)), "claims[0].mount['/a/']"),
    "a label that no server takes": (web(labels={"team": "a b"}), "labels['team']: 'a b' is no value of a label"),
    "a label of another form": (web(labels={"Team!": "a"}), "labels['Team!']: is no key"),
    "an annotation of Hanei's": (web(annotations={"hanei.dev/applied": "x"}), "annotations['hanei.dev/applied']: belongs to Hanei"),
    "the cause of a change": (web(annotations={"kubernetes.io/change-cause": "x"}), "annotations['kubernetes.io/change-cause']: belongs to Hanei"),
    "an overlay of the kind": (web(overlay={"kind": "DaemonSet"}), "overlay.kind: may not be overlaid"),
    "an overlay of the status": (web(overlay={"status": {}}), "overlay.status"),
    "an overlay that is no map": (web(overlay={"spec": None}), "overlay.spec: found None, expected a map"),
    "an overlay of a whole template": (web(overlay={"spec": {"template": "x"}}), "overlay.spec.template: found 'x'"),
    "an overlay of the owner": (web(overlay={"metadata": {"ownerReferences": []}}), "overlay.metadata.ownerReferences"),
    "an overlay of the template's name": (web(overlay={"spec": {"template": {"metadata": {"name": "x"}}}}), "overlay.spec.template.metadata.name"),
    "an overlay of the pods' own labels": (web(overlay={"spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}}}), "labels['app.kubernetes.io/instance']: belongs to Hanei"),
    "an overlay that takes all labels away": (web(overlay={"spec": {"template": {"metadata": {"labels": None}}}}), "labels: found None, expected a map"),
    "an overlay of a container without a name": (web(overlay=over(containers=[{"tty": True}])), "overlay.spec.template.spec.containers: each item needs a name"),
    "an overlay that takes the containers away": (web(overlay=over(containers=None)), "overlay.spec.template.spec.containers"),
    "an overlay of a strategy that is none": (web(overlay={"spec": {"strategy": {"type": "Fast"}}}), "overlay.spec.strategy.type: found 'Fast'"),
    "an overlay of a set": (web(overlay=over(x={"a", "b"})), "overlay.spec.template.spec.x: a set cannot stand in an object"),
    "an overlay of a key that is no text": (web(overlay=over(x={1: 2})), "overlay.spec.template.spec.x: the key 1 is no text"),
    "an overlay of a date": (web(overlay=over(x=[datetime.date(2026, 1, 1)])), "overlay.spec.template.spec.x[0]: a date"),
    "an extra object without metadata": (web(extra=({"apiVersion": "v1", "kind": "ConfigMap"},)), "extra[0].metadata.name: is missing"),
    "an extra object whose metadata are text": (web(extra=({**EXTRA, "metadata": "x"},)), "extra[0].metadata: found 'x'"),
    "an extra object with an owner of its own": (web(extra=({**EXTRA, "metadata": {"name": "x", "ownerReferences": []}},)), "extra[0].metadata.ownerReferences"),
    "an extra object with a uid": (web(extra=({**EXTRA, "metadata": {"name": "x", "uid": "1"}},)), "extra[0].metadata.uid"),
    "an extra object with a label of Hanei's": (web(extra=({**EXTRA, "metadata": {"name": "x", "labels": {"hanei.dev/role": "slice"}}},)), "extra[0].metadata.labels['hanei.dev/role']"),
    "an extra object of what cannot be written": (web(extra=({**EXTRA, "data": {"a": {1}}},)), "extra[0].data.a: a set"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_component_module_and_field(case: str) -> None:
    """No object is made of the component; the message is the whole story."""
    value, message = REFUSED[case]
    found = one(value)
    assert found.objects == ()
    assert str(found.error).startswith(f"component web ({__name__}): "), found.error
    assert message in str(found.error)
    assert found.error is not None
    assert found.error.field
    assert found.error.component == "web"


def test_one_component_that_is_refused_never_stops_the_others() -> None:
    """Whatever it returns."""
    for case, (value, _) in REFUSED.items():
        app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
        app.component("bad")(lambda spec, own, value=value: value)
        app.component("good")(lambda spec, own: web())
        found = render(app, Spec(), own_of(app, "res", "default"))
        assert found["good"].error is None, case
        assert found["good"].wanted


def test_workloads_of_one_name_are_refused_whatever_their_kinds() -> None:
    """They would select each other's pods."""
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("one")(lambda spec, own: web(name="same"))
    app.component("two")(lambda spec, own: StatefulSet(name="same", containers=(pod(),)))
    app.component("three")(lambda spec, own: web(name="same"))
    found = render(app, Spec(), own_of(app, "res", "default"))
    assert found["one"].error is None
    for other in ("two", "three"):
        assert f"component {other} ({__name__}): name: " in str(found[other].error)
        assert "'same' is already made by component one" in str(found[other].error)


def test_everything_below_a_live_folder_is_in_its_one_volume() -> None:
    """The volume is read-only: nothing could be mounted into it. Live folders inside one another are one."""
    found = good(
        web(
            pod(
                live_files={"/srv/app/live": "1", "/srv/app/deep/er/live": "2"},
                files={"/srv/app/sub/fixed": "3", "/srv/apple": "4"},
                secret_files={"/srv/app/sub/key": secret("s", "k")},
            )
        )
    )
    spec = template(found)
    assert sorted(item["mountPath"] for item in spec["containers"][0]["volumeMounts"]) == ["/srv/app", "/srv/apple"]
    sources = next(item["projected"]["sources"] for item in spec["volumes"] if "projected" in item)
    paths = sorted(item["path"] for source in sources for body in source.values() for item in body["items"])
    assert paths == ["deep/er/live", "live", "sub/fixed", "sub/key"]


def test_keys_of_a_config_map_are_what_the_server_takes_and_never_one() -> None:
    """`/a/b` and `/a_b` are two keys; two dots at the beginning and very long paths are rewritten."""
    found = good(web(pod(files={"/a/b": "1", "/a_b": "2", "/..data": "3", "/" + "x" * 250 + "/y/z": "4"})))
    slice_ = next(item for item in found.objects if item.role is Role.SLICE)
    keys = slice_.body["data"]
    assert sorted(keys.values()) == ["1", "2", "3", "4"]
    assert all(len(key) <= 253 and not key.startswith("..") for key in keys)
    mounted = {item["mountPath"]: item["subPath"] for item in template(found)["containers"][0]["volumeMounts"]}
    assert keys[mounted["/a/b"]] == "1"
    assert keys[mounted["/a_b"]] == "2"


def test_a_value_that_looks_like_a_placeholder_or_a_reference_stays_what_it_is() -> None:
    """`@slice` is Hanei's word only in a volume; `$(NAME)` and `$$` are the kubelet's, so they are escaped."""
    found = good(web(pod(env={"A": "@slice", "B": "$(HOME) $$ $"}, files={"/a": "x"})))
    env = {item["name"]: item["value"] for item in template(found)["containers"][0]["env"]}
    assert env == {"A": "@slice", "B": "$$(HOME) $$$$ $$"}


def test_ports_of_two_protocols_have_two_names() -> None:
    """A DNS server listens on 53 twice; a StatefulSet's governing Service names each port of its pods once."""
    both = (Port(number=53), Port(number=53, protocol="UDP"))
    for value in (web(service=both), StatefulSet(containers=(pod(ports=both), pod(name="b", ports=(53,))))):
        service = next(item for item in good(value).objects if item.kind.kind == "Service")
        assert [(port["name"], port["protocol"]) for port in service.body["spec"]["ports"]] == [
            ("p53", "TCP"),
            ("p53-udp", "UDP"),
        ]


def test_an_overlay_decides_the_strategy_that_effects_speak_of() -> None:
    """Recreate by an overlay is downtime like Recreate by name, and an exclusive claim is fine then."""
    values = [
        web(
            pod(env={"A": text}, volumes={"/d": ExistingClaim(name="c")}),
            overlay={"spec": {"strategy": {"type": "Recreate"}}},
        )
        for text in "ab"
    ]
    assert between(good(values[0]), good(values[1])) == {Effect.RECREATE}


def test_an_overlay_reaches_other_fields_and_takes_away_with_none() -> None:
    """Named items are merged by name, new ones added; None removes, also where there is nothing."""
    value = web(
        pod(ports=(80,)),
        labels={"team": "a"},
        node_selector={"disk": "ssd"},
        overlay={
            "metadata": {"annotations": {"note": "b"}},
            "spec": {
                "template": {
                    "metadata": {"labels": {"team": None}},
                    "spec": {
                        "nodeSelector": None,
                        "affinity": {"podAffinity": None},
                        "containers": [{"name": "web", "tty": True}, {"name": "side", "image": "busybox"}],
                    },
                }
            },
        },
    )
    found = good(value)
    spec = template(found)
    assert [(item["name"], item.get("tty"), item["image"]) for item in spec["containers"]] == [
        ("web", True, "nginx"),
        ("side", None, "busybox"),
    ]
    assert "nodeSelector" not in spec
    assert spec["affinity"] == {}
    assert found.workload is not None
    assert "team" not in found.workload.body["spec"]["template"]["metadata"]["labels"]
    assert found.workload.body["metadata"]["annotations"] == {"note": "b"}


def test_replicas_none_leaves_the_number_to_an_autoscaler() -> None:
    """The field is not applied at all."""
    found = good(web(replicas=None))
    assert found.workload is not None
    assert "replicas" not in found.workload.body["spec"]
    assert good(web(replicas=0)).workload.body["spec"]["replicas"] == 0  # type: ignore[union-attr]


def test_a_live_file_of_bytes_is_a_live_change() -> None:
    """Text and bytes of one live ConfigMap both count."""
    values = [web(pod(live_files={"/l/text": "same", "/l/blob": bytes([255, number])})) for number in (1, 2)]
    assert between(good(values[0]), good(values[1])) == {Effect.LIVE}


def test_a_stateful_sets_name_has_no_dots_for_its_pods_are_hosts() -> None:
    """A Deployment may be named like its resource, dots and all."""
    deployment = good(web(name="my.res"), name="my.res").workload
    stateful = good(StatefulSet(name="my.res", containers=(pod(),)), name="my.res").workload
    assert deployment is not None
    assert stateful is not None
    assert deployment.name == "my.res"
    assert stateful.name.startswith("my-res-")


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is "Colour.RED": that must not leak
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


FORMS: dict[str, tuple[Any, Any]] = {
    "an enum of text": (Colour.RED, "red"),
    "an enum of numbers": (Level.LOW, 1),
    "a date": (datetime.date(2026, 1, 2), "2026-01-02"),
    "a moment": (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00Z"),
    "an address": (ipaddress.ip_address("192.0.2.1"), "192.0.2.1"),
    "a uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "a decimal": (Decimal("1.50"), "1.50"),
    "a quantity": (Quantity("1Gi"), "1Gi"),
    "a set": ({"b", "a"}, ["a", "b"]),
    "a tuple": ((1, 2), [1, 2]),
}


@pytest.mark.parametrize("case", FORMS)
def test_s63_every_type_of_a_setting_has_one_form_in_a_file(case: str) -> None:
    """JSON and YAML agree, and neither leaks a Python name."""
    value, form = FORMS[case]
    assert json.loads(as_json({"x": value})) == {"x": form}
    assert yaml.safe_load(as_yaml({"x": value})) == {"x": form}
    if not isinstance(form, list):
        assert as_ini({"s": {"k": value}}) == f"[s]\nk = {form}\n\n"
        assert as_env({"K": value}).startswith("K=")


@pytest.mark.parametrize("value", [b"bytes", object()])
def test_what_has_no_form_is_refused(value: Any) -> None:
    """Bytes are a file of their own, not a value in one."""
    with pytest.raises(AppError, match="cannot be written to a file"):
        as_json({"x": value})


def test_s14_sets_are_sorted_in_files_and_in_defaults_whatever_the_hash_seed() -> None:
    """A set among the settings is written in one order, in the CRD too."""
    code = """
from hanei import App, Container, Deployment, Settings, as_json, setting
from hanei.crd.definition import definition
from hanei.render.canon import digest
class Inner(Settings):
    tags: set[str] = setting({"e", "d", "c", "b", "a"})
class Spec(Settings):
    tags: set[str] = setting({"a", "b", "c", "d", "e"})
    inner: Inner = setting(Inner())
    inners: list[Inner] = setting([Inner()])
app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
print(digest([as_json(Spec()), as_json({"s": Spec()}), definition(app)]))
"""
    found = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_a_host_path_and_scratch_are_named_by_what_they_are() -> None:
    """Equal volumes at one path are one; another size is another volume."""
    spec = template(
        good(web(pod(volumes={"/t": Scratch()}), pod(name="b", volumes={"/t": Scratch(), "/d": HostPath(path="/d")})))
    )
    assert len(spec["volumes"]) == 2
    spec = template(good(web(pod(volumes={"/t": Scratch()}), pod(name="b", volumes={"/t": Scratch(size="1Gi")}))))
    assert len(spec["volumes"]) == 2
