"""Every type that the author API offers, as a CRD on the real API server: good values stay, bad ones are refused by name."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pydantic
import pytest
import yaml

from hanei import (
    App,
    Claim,
    Column,
    Container,
    Deployment,
    Duration,
    FieldRef,
    IntOrString,
    Own,
    Port,
    Probe,
    Quantity,
    Right,
    Rule,
    Scratch,
    Service,
    Settings,
    StatefulSet,
    secret,
    setting,
)
from hanei.crd.definition import definition, spec_schema
from hanei.crd.normalise import normalise
from hanei.errors import SettingsInvalid
from hanei.plan.effects import leaves_of
from hanei.render.render import own_of, render
from tests.system import world as w

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("types")]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Item(Settings):
    """One item of a list."""

    name: str = setting(max_length=20)
    count: int = setting(1, ge=0)


class Nested(Settings):
    """A group with a rule over two fields."""

    low: int = setting(1, ge=0)
    high: int = setting(5, ge=0)
    rules = (Rule("self.low <= self.high", "low must not exceed high", ".low"),)


class Types(Settings):
    """One field of every type."""

    boolean: bool = setting(False)
    int32: int = setting(1, format="int32")
    bounded: int = setting(5, ge=1, le=10)
    open_bounds: int = setting(5, gt=1, lt=10, alias="openBounds")
    multiple: int = setting(10, multiple_of=5)
    number: float = setting(0.5, ge=0, le=1)
    text: str = setting("abc", min_length=2, max_length=5)
    pattern: str = setting("a1", pattern="^[a-z][0-9]$")
    hostname: str = setting("example.com", format="hostname")
    choice: Literal["left", "right"] = setting("left")
    colour: Colour = setting(Colour.RED)
    level: Level = setting(Level.LOW)
    listed: list[str] = setting(["a"], max_length=3)
    unique: set[str] = setting({"a"}, max_length=9)
    items: list[Item] = setting([Item(name="one")], keys=("name",), max_length=9)
    texts: dict[str, str] = setting({"a": "b"})
    counts: dict[str, int] = setting({"a": 1})
    groups: dict[str, Nested] = setting({})
    nested: Nested = setting(Nested())
    optional: str | None = setting(None, min_length=2)
    optional_group: Nested | None = setting(None, alias="optionalGroup")
    port: IntOrString = setting(IntOrString("http"))
    size: Quantity = setting(Quantity("1Gi"))
    wait: Duration = setting(Duration("5m"))
    day: datetime.date = setting(datetime.date(2026, 1, 2))
    moment: datetime.datetime = setting(datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC))
    ipv4: ipaddress.IPv4Address = setting(ipaddress.IPv4Address("192.0.2.1"))
    ipv6: ipaddress.IPv6Address = setting(ipaddress.IPv6Address("2001:db8::1"))
    ident: uuid.UUID = setting(uuid.UUID(int=1))
    link: pydantic.AnyUrl = setting(pydantic.AnyUrl("https://example.com/"))
    ruled: int = setting(2, rules=[Rule("self % 2 == 0", "must be even")])
    needed: str = setting(min_length=1)


app = App(
    Types,
    group="types.hanei.test",
    version="v1",
    kind="Typed",
    plural="typeds",
    columns=[Column("Bounded", ".spec.bounded"), Column("Low", ".spec.nested.low")],
    scale="nested.low",
    sample={"needed": "x"},
)


@app.component
def one(spec: Types, own: Own) -> Deployment:
    return Deployment(replicas=spec.nested.low, containers=[Container(image=spec.needed)])


GOOD: dict[str, list[Any]] = {
    "boolean": [True, False], "int32": [-5, 2147483647], "bounded": [1, 10], "openBounds": [2, 9], "multiple": [0, 15], "number": [0, 1, 0.25],
    "text": ["ab", "abcde", "日本"], "pattern": ["b2"], "hostname": ["a.b.example"], "choice": ["right"], "colour": ["blue"], "level": [2],
    "listed": [[], ["b", "b"]], "unique": [["a", "b"]], "items": [[{"name": "a"}, {"name": "b", "count": 3}]], "texts": [{}, {"k": "v"}],
    "counts": [{"k": 2}], "groups": [{"g": {"low": 2}}], "nested": [{}, {"low": 5}], "optional": ["ab", None], "optionalGroup": [{"low": 2}, None],
    "port": [80, "https"], "size": ["250Mi", 2, "1500m"], "wait": ["90s", "1h30m"], "day": ["2026-12-31"], "moment": ["2026-12-31T23:59:59Z"],
    "ipv4": ["10.0.0.1"], "ipv6": ["::1"], "ident": ["00000000-0000-4000-8000-000000000001"], "link": ["https://example.com/x?y"], "ruled": [4], "needed": ["y"],
}  # fmt: skip
BAD: dict[str, list[Any]] = {
    "boolean": ["yes", 1], "int32": ["aaa", 1.5, 3_000_000_000], "bounded": [0, 11], "openBounds": [1, 10], "multiple": [7], "number": ["x", 1.5],
    "text": ["a", "abcdef", 5], "pattern": ["A1"], "choice": ["up"], "colour": ["green"], "level": [3], "listed": [["a", "b", "c", "d"], "a", [1]],
    "unique": [["a", "a"]], "items": [[{"name": "a"}, {"name": "a"}], [{"count": 1}]], "texts": [{"k": 1}, "x"], "counts": [{"k": "x"}],
    "groups": [{"g": {"low": -1}}], "nested": [{"low": 9}, "x"], "optional": ["a", 3], "optionalGroup": [{"low": -1}], "port": [1.5], "size": ["big"],
    "wait": ["PT5M", "soon"], "day": ["tomorrow"], "moment": ["noon"], "ipv4": ["300.1.1.1"], "ipv6": ["x"], "ident": ["x"], "link": ["no link"],
    "ruled": [3], "needed": ["", None],
}  # fmt: skip
SERVER_IS_LENIENT = {"hostname", "link", "ident"}
"""Formats that the API server reads more loosely than Python: nothing is claimed about its refusal."""


@pytest.fixture(scope="module")
def served(hanei_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the CRD, which goes afterwards."""
    w.install(hanei_cluster, app)
    yield hanei_cluster
    hanei_cluster.request("DELETE", w.kinds.CRD.path(None, definition(app)["metadata"]["name"]))


def sent(cluster: Cluster, namespace: str, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The server's answer to a resource of this spec; it is not kept."""
    body = {"apiVersion": app.kind.api_version, "kind": app.kind.kind, "metadata": {"name": "one"}, "spec": spec}
    status, found = cluster.request("POST", app.kind.path(namespace), body)
    if status == 201:
        cluster.request("DELETE", app.kind.path(namespace, "one"))
    return status, found


def test_every_field_is_tried() -> None:
    """No type is left out of the tables."""
    fields = set(spec_schema(app)["properties"]) - {"suspend"}
    assert set(GOOD) == fields
    assert set(BAD) >= fields - {"hostname"}


@pytest.mark.parametrize("field", GOOD)
def test_good_values_are_stored_as_we_normalise_them(served: Cluster, hanei_namespace: str, field: str) -> None:
    """What the server stores equals `normalise`, and the same model takes it."""
    for value in GOOD[field]:
        spec = {"needed": "x", field: value}
        status, found = sent(served, hanei_namespace, spec)
        assert status == 201, found
        assert found["spec"] == normalise(spec_schema(app), spec)
        app.parse(found["spec"])


@pytest.mark.parametrize("field", BAD)
def test_bad_values_are_refused_by_name_by_the_server_and_by_the_model(
    served: Cluster, hanei_namespace: str, field: str
) -> None:
    """The refusal names the field; the operator's own validation refuses the same."""
    for value in BAD[field]:
        spec = {"needed": "x", field: value}
        status, found = sent(served, hanei_namespace, spec)
        if field not in SERVER_IS_LENIENT:
            assert status == 422, (value, found)
            assert f"spec.{field}" in found["message"]
        with (
            pytest.raises(SettingsInvalid, match=f"spec.{field}|low must not exceed|must be even")
            if field not in ("ruled", "nested", "unique", "items", "int32")
            else nothing()
        ):
            app.parse(normalise(spec_schema(app), spec))


class nothing:  # noqa: N801 - reads as a context
    """For rules that only the server knows (CEL, list keys, formats of numbers)."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> bool:
        return True


def test_defaults_are_filled_in_and_unknown_fields_pruned(served: Cluster, hanei_namespace: str) -> None:
    """A resource of an older schema: what the server no longer knows goes, the rest gets its default."""
    spec = {"needed": "x", "gone": 1, "nested": {"gone": 2}, "items": [{"name": "a", "gone": 3}]}
    status, found = sent(served, hanei_namespace, spec)
    assert status == 201, found
    assert found["spec"] == normalise(spec_schema(app), spec)
    assert "gone" not in json.dumps(found["spec"])
    assert found["spec"]["nested"] == {"low": 1, "high": 5}


def test_rules_name_their_message(served: Cluster, hanei_namespace: str) -> None:
    """CEL on a field and on an object."""
    assert "must be even" in sent(served, hanei_namespace, {"needed": "x", "ruled": 3})[1]["message"]
    assert (
        "low must not exceed high" in sent(served, hanei_namespace, {"needed": "x", "nested": {"low": 9}})[1]["message"]
    )


def test_scale_works_on_a_nested_path_and_columns_are_shown(served: Cluster, hanei_namespace: str) -> None:
    """`kubectl scale` and `kubectl get`, by the API they use."""
    body = {
        "apiVersion": app.kind.api_version,
        "kind": app.kind.kind,
        "metadata": {"name": "one"},
        "spec": {"needed": "x"},
    }
    assert served.request("POST", app.kind.path(hanei_namespace), body)[0] == 201
    path = app.kind.path(hanei_namespace, "one", "scale")
    status, found = served.request("PATCH", path, {"spec": {"replicas": 3}}, w.MERGE)
    assert (status, found["spec"]["replicas"]) == (200, 3)
    assert served.request("GET", app.kind.path(hanei_namespace, "one"))[1]["spec"]["nested"]["low"] == 3
    columns = [one["name"] for one in definition(app)["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns == ["Bounded", "Low", "Ready", "Reason", "Message", "Age"]


NULLS: dict[str, dict[str, Any]] = {
    "null and absent are the same for what is optional": {"optional": None, "optionalGroup": None},
    "null gets the default where there is one": {"bounded": None, "choice": None, "listed": None, "nested": None},
    "null inside a group": {"nested": {"low": None}, "optionalGroup": {"high": None}},
    "null in a map": {"texts": {"a": None, "b": "c"}, "groups": {"g": None, "h": {"low": None}}},
    "null in an item": {"items": [{"name": "a", "count": None}]},
}


@pytest.mark.parametrize("case", NULLS)
def test_nulls_are_read_as_the_server_reads_them(served: Cluster, hanei_namespace: str, case: str) -> None:
    """What is stored equals `normalise`: null is never a value of a setting."""
    spec = {"needed": "x", **NULLS[case]}
    status, found = sent(served, hanei_namespace, spec)
    assert status == 201, found
    assert found["spec"] == normalise(spec_schema(app), spec)
    app.parse(found["spec"])


def test_a_needed_setting_that_is_null_or_absent_is_refused_by_name(served: Cluster, hanei_namespace: str) -> None:
    """By the server and by us, in the same place."""
    for spec in ({}, {"needed": None}):
        status, found = sent(served, hanei_namespace, spec)
        assert status == 422
        assert "spec.needed: Required value" in found["message"]
        with pytest.raises(SettingsInvalid, match="needed: is required"):
            app.parse(normalise(spec_schema(app), spec))


def kubectl(cluster: Cluster, namespace: str, *arguments: str, stdin: str = "") -> str:
    """What a user sees."""
    command = [
        str(Path(sys.executable).parent / "kubectl"),
        f"--kubeconfig={cluster.kubeconfig}",
        "-n",
        namespace,
        *arguments,
    ]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SAMPLES: dict[str, App[Any]] = {"autolock": w.autolock, "ochacafe": w.ochacafe}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_published_sample_applies_unchanged_and_its_columns_are_shown(
    cluster: Cluster, hanei_namespace: str, name: str
) -> None:
    """`kubectl apply -f` of the file as it was published; nothing of it is dropped; `kubectl get` has the app's columns."""
    one, text = SAMPLES[name], (w.ROOT / f"apps/{name}/src/{name}/sample.yaml").read_text(encoding="utf-8")
    kubectl(cluster, hanei_namespace, "apply", "--validate=strict", "-f", "-", stdin=text)
    published = yaml.safe_load(text)
    stored = cluster.request("GET", one.kind.path(hanei_namespace, published["metadata"]["name"]))[1]["spec"]
    assert stored == normalise(spec_schema(one), published["spec"])
    missing = [path for path, value in leaves_of(published["spec"]) if dict(leaves_of(stored)).get(path) != value]
    assert missing == []
    head = kubectl(cluster, hanei_namespace, "get", one.kind.plural).splitlines()[0].split()
    assert head == ["NAME", *(column.name.upper() for column in one.columns), "READY", "REASON", "AGE"]
    wide = kubectl(cluster, hanei_namespace, "get", one.kind.plural, "-o", "wide").splitlines()[0].split()
    assert "MESSAGE" in wide


def test_kubectl_scales_the_cafe_and_a_nested_path(served: Cluster, cluster: Cluster, hanei_namespace: str) -> None:
    """The scale subresource changes the setting that `scale=` names, and nothing else."""
    cafe = {"apiVersion": w.ochacafe.kind.api_version, "kind": "Ochacafe", "metadata": {"name": "a"}, "spec": {"size": 1, "image": "nginx"}}  # fmt: skip
    typed = {"apiVersion": app.kind.api_version, "kind": app.kind.kind, "metadata": {"name": "a"}, "spec": {"needed": "x"}}  # fmt: skip
    kubectl(cluster, hanei_namespace, "apply", "-f", "-", stdin=json.dumps(cafe))
    kubectl(cluster, hanei_namespace, "apply", "-f", "-", stdin=json.dumps(typed))
    kubectl(cluster, hanei_namespace, "scale", "ochacafe/a", "--replicas=4")
    kubectl(cluster, hanei_namespace, "scale", "typed/a", "--replicas=3")
    found = cluster.request("GET", w.ochacafe.kind.path(hanei_namespace, "a"))[1]["spec"]
    assert found == {"size": 4, "image": "nginx"}
    assert cluster.request("GET", app.kind.path(hanei_namespace, "a"))[1]["spec"]["nested"] == {"low": 3, "high": 5}


corners = App(Types, group="corners.hanei.test", version="v1", kind="Corner", plural="corners", sample={"needed": "x"})


@corners.component
def everything(spec: Types, own: Own) -> StatefulSet:
    both = (Port(number=53), Port(number=53, protocol="UDP"))
    files: dict[str, str | bytes] = {
        "/..data": "1",
        "/" + "x" * 250 + "/y": "2",
        "/srv/app/sub/fixed": "3",
        "/a/b": "4",
        "/a_b": b"\xff",
    }
    main = Container(
        image="nginx", ports=(*both, 80), files=files, live_files={"/srv/app/live": "1", "/srv/app/deep/live": b"\xff"},
        secret_files={"/srv/app/key": secret("s", "k", optional=True), "/run/k": secret("s", "k")},
        env={"A": "$(HOME) $$", "B": 1, "C": True, "D": 0.5, "E": FieldRef(path="metadata.name"), "F": "茶"}, volumes={"/tmp": Scratch(size="1Mi")},
        ready=Probe(path="/"), live=Probe(command=("true",)), startup=Probe(), requests={"cpu": "1m"}, limits={"memory": "1Gi"},
    )  # fmt: skip
    return StatefulSet(
        name="my.name", containers=(main, Container(image="b", name="b", ports=(53,))), init=(Container(image="i", files={"/i": "1"}),), claims=(Claim(size="1Gi", mount="/data"),),
        services=(Service(ports=both, name="Ünusual Name"),), rights=(Right(resources=("configmaps",), verbs=("get",)),), labels={"team": "a"}, node_selector={"a": "b"},
        overlay={"metadata": {"annotations": {"x": "y"}}, "spec": {"template": {"spec": {"affinity": {"podAffinity": None}, "containers": [{"name": "side", "image": "s"}]}}}},
        extra=({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Extra".lower()}, "data": {"a": "b"}},),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a", "9.dots.and-a-digit", "a" * 253, ".".join(["x" * 60] * 4)])
def test_s47_whatever_is_rendered_is_taken_by_the_server(cluster: Cluster, hanei_namespace: str, name: str) -> None:
    """Every object of an app that uses every feature, and of the three apps, under names of every form."""
    for one in (corners, app, w.autolock, w.ochacafe):
        sample = normalise(spec_schema(one), one.sample)
        found = render(
            one, one.parse(sample), own_of(one, name, hanei_namespace, "00000000-0000-4000-8000-000000000001")
        )
        assert not found.errors
        for item in (item for component in found.components for item in component.objects):
            path = (
                item.kind.path(hanei_namespace, item.name)
                + "?fieldManager=test&force=true&fieldValidation=Strict&dryRun=All"
            )
            status, answer = cluster.request("PATCH", path, item.body, w.APPLY)
            assert status in (200, 201), f"{item.kind} {item.name}: {answer['message']}"
