"""Whatever an author returns, rendering either refuses it by name or yields objects that the server could read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanei import App, Claim, Container, Deployment, ExistingClaim, Own, Port, Scratch, Service, Settings, StatefulSet
from hanei.render.canon import canonical, merge
from hanei.render.render import own_of, render

if TYPE_CHECKING:
    from hanei.render.model import Rendered

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,253}")


class Spec(Settings):
    """Nothing to set."""


def rendered(value: Any, name: str = "res") -> Rendered:
    app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")

    @app.component
    def web(spec: Spec, own: Own) -> Any:
        return value

    return render(app, Spec(), own_of(app, name, "default", "u1"))


def check(found: Rendered) -> None:
    """Refused with component, module and field; or objects of canonical bytes, and names and keys that the server takes."""
    component = found["web"]
    if component.error is not None:
        assert component.objects == ()
        assert str(component.error).startswith(f"component web ({__name__}): ")
        return
    for item in component.objects:
        canonical(item.body)
        form = LABEL if item.kind.kind in ("Service", "StatefulSet") else SUBDOMAIN
        assert form.fullmatch(item.name), item.name
        for label in item.body["metadata"]["labels"].values():
            assert VALUE.fullmatch(label), label
        for key in (
            {**item.body.get("data", {}), **item.body.get("binaryData", {})} if item.kind.kind == "ConfigMap" else ()
        ):
            assert KEY.fullmatch(key), key
        assert item.body["metadata"]["name"] == item.name
        assert item.body["metadata"]["ownerReferences"][0]["uid"] == "u1"
        assert item.body["kind"] == item.kind.kind
    assert component.workload is not None
    spec = component.workload.body["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


WORDS = st.sampled_from(
    ["metadata", "spec", "template", "labels", "annotations", "name", "containers", "volumes", "web", "replicas", "strategy", "type",
     "updateStrategy", "hanei.dev/role", "app.kubernetes.io/instance", "selector", "kind", "apiVersion", "a", ""]
)  # fmt: skip
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=2), WORDS
)
TREE = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), inner, max_size=3),
        st.lists(inner, max_size=3),
        st.frozensets(st.integers(), max_size=2),
    ),
    max_leaves=12,
)


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A map with some of these members, each as it should be or anything at all."""
    return st.fixed_dictionaries({}, optional={key: st.one_of(value, TREE) for key, value in parts.items()})


TEXTS = st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), st.one_of(st.none(), st.text(max_size=3)), max_size=2)
NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["web", "side", ""])}, optional={"tty": TREE}), max_size=2
)
OVERLAY = some(
    metadata=some(labels=TEXTS, annotations=TEXTS, finalizers=TREE),
    spec=some(
        replicas=TREE, strategy=some(type=st.sampled_from(["Recreate", "OnDelete"])), updateStrategy=some(type=st.just("OnDelete")), volumeClaimTemplates=TREE,
        template=some(metadata=some(labels=TEXTS, annotations=TEXTS), spec=some(containers=NAMED, volumes=NAMED, nodeSelector=TREE)),
    ),
).filter(lambda overlay: isinstance(overlay, dict))  # fmt: skip


@given(OVERLAY)
def test_any_overlay_is_refused_by_name_or_rendered(overlay: dict[str, Any]) -> None:
    """No overlay stops the other components, and none takes away what Hanei needs."""
    containers = (Container(image="nginx", ports=(80,)),)
    check(rendered(Deployment(containers=containers, overlay=overlay)))
    check(rendered(StatefulSet(containers=containers, overlay=overlay)))


@given(
    st.fixed_dictionaries(
        {"apiVersion": st.sampled_from(["v1", "apps/v1"]), "kind": st.sampled_from(["ConfigMap", "Deployment"])},
        optional={"metadata": st.one_of(TREE, st.fixed_dictionaries({"name": st.just("extra")}, optional={"labels": TREE, "annotations": TREE})), "data": TREE},
    )
)  # fmt: skip
def test_any_extra_object_is_refused_by_name_or_rendered(body: dict[str, Any]) -> None:
    """What an author writes freely is checked as far as Hanei itself depends on it."""
    found = rendered(Deployment(containers=(Container(image="nginx"),), extra=(body,)))
    assert found["web"].error is None or "extra[0]" in str(found["web"].error)


PATH = st.one_of(
    st.sampled_from(["/a", "/a/b", "/a/b/c", "/a_b", "/a/..b", "/..a", "//a", "/a/", "/", "a", "/x/" + "y" * 300]),
    st.text(alphabet="/a.b-é", max_size=6),
)
CONTENT = st.one_of(st.text(max_size=3), st.binary(max_size=3), st.just("\ud800"))


@given(
    st.dictionaries(PATH, CONTENT, max_size=3),
    st.dictionaries(PATH, CONTENT, max_size=3),
    st.dictionaries(PATH, st.sampled_from([Scratch(), ExistingClaim(name="c")]), max_size=2),
    st.sampled_from(["/a", "/data", "/data/"]),
)
def test_any_files_are_refused_by_name_or_each_is_mounted_once(
    files: dict[str, Any], live: dict[str, Any], volumes: dict[str, Any], mount: str
) -> None:
    """Every file ends in exactly one mount or projected item; none lies inside a read-only folder or another file."""
    container = Container(image="nginx", files=files, live_files=live, volumes=volumes)
    found = rendered(StatefulSet(containers=(container,), claims=(Claim(size="1Gi", mount=mount),)))
    check(found)
    component = found["web"]
    if component.workload is None:
        return
    spec = component.workload.body["spec"]["template"]["spec"]
    mounts = spec["containers"][0]["volumeMounts"]
    projected = {
        volume["name"]: volume["projected"]["sources"] for volume in spec.get("volumes", []) if "projected" in volume
    }
    seen = [item["mountPath"] for item in mounts if item["name"] not in projected]
    for item in mounts:
        for source in projected.get(item["name"], []):
            seen += [f"{item['mountPath']}/{one['path']}" for one in next(iter(source.values()))["items"]]
    assert sorted(seen) == sorted([*files, *live, *volumes, mount])
    read_only = [item["mountPath"] for item in mounts if item.get("readOnly")]
    assert not [path for path in seen for outer in read_only if path.startswith(f"{outer}/") and outer in files]


PORTS = st.lists(st.one_of(st.integers(1, 4), st.builds(Port, number=st.integers(1, 3), name=st.sampled_from(["", "a", "b"]), protocol=st.sampled_from(["TCP", "UDP"]))), max_size=3)  # fmt: skip


@given(PORTS, PORTS, st.lists(PORTS.filter(bool), max_size=2), st.sampled_from(["", "public"]))
def test_any_ports_are_refused_by_name_or_named_once(
    ports: list[Any], service: list[Any], services: list[list[Any]], name: str
) -> None:
    """A Service has each (port, protocol) and each name once: the server refuses it otherwise."""
    value = StatefulSet(
        containers=(Container(image="nginx", ports=tuple(ports)),),
        service=tuple(service),
        services=tuple(Service(ports=tuple(one), name=name) for one in services),
    )
    found = rendered(value)
    check(found)
    for item in found["web"].objects:
        if item.kind.kind == "Service":
            listed = item.body["spec"]["ports"]
            assert len({(one["port"], one["protocol"]) for one in listed}) == len(listed)
            assert len({one.get("name") for one in listed}) == len(listed)


@given(
    st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253),
    st.text(max_size=70),
    st.text(max_size=70),
)
def test_any_names_become_names_that_the_server_takes(resource: str, workload: str, service: str) -> None:
    """Long, dotted, beginning with a digit, or in another script."""
    kinds: list[type[Deployment] | type[StatefulSet]] = [Deployment, StatefulSet]
    for kind in kinds:
        value = kind(
            name=workload, containers=(Container(image="nginx"),), services=(Service(ports=(80,), name=service),)
        )
        check(rendered(value, resource))


@given(st.dictionaries(WORDS, TREE, max_size=3), st.dictionaries(WORDS, TREE, max_size=3))
def test_laying_a_map_over_itself_changes_nothing_more(base: dict[str, Any], over: dict[str, Any]) -> None:
    """`merge` is idempotent, and never changes its arguments."""
    before = repr((base, over))
    once = merge(base, over)
    assert repr(merge(once, over)) == repr(once)
    assert repr((base, over)) == before


@pytest.mark.parametrize(
    "wrong", [{"imagee": "x"}, {"image": "x", "ports": ["http"]}, {"image": "x", "files": {"/a": 1}}]
)
def test_the_typed_values_refuse_what_is_misspelt(wrong: dict[str, Any]) -> None:
    """A wrong word is an error when the value is made, with the field."""
    with pytest.raises(pydantic.ValidationError, match=r"imagee|ports|files"):
        Container.model_validate(wrong)
