"""Ochacafe as an author tests it: settings in, objects out, no cluster."""

from __future__ import annotations

import pytest

from hanei import Seen, SeenPod
from hanei.errors import SettingsInvalid
from hanei.render.render import own_of, render
from ochacafe.app import app


def test_a_cafe_is_one_deployment_of_its_own_name() -> None:
    """`size` pods of `image`, port 80, owned by the resource."""
    (cafe,) = render(app, app.parse({"size": 3, "image": "tea"}), own_of(app, "sencha", "default", "u1")).components
    assert [(item.kind.kind, item.name) for item in cafe.objects] == [("Deployment", "sencha")]
    body = cafe.objects[0].body
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert (body["spec"]["replicas"], container["image"]) == (3, "tea")
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert body["metadata"]["ownerReferences"][0]["name"] == "sencha"


def test_its_nodes_are_the_names_of_its_pods() -> None:
    """As the teaching example has it."""
    pods = tuple(SeenPod(name, "cafe", True, "h") for name in ("a", "b"))
    assert app.status_of(Seen(pods)) == {"nodes": ["a", "b"]}
    assert app.status_of(Seen()) == {"nodes": []}


@pytest.mark.parametrize(("spec", "field"), [({"size": "aaa", "image": "x"}, "size"), ({"size": -1, "image": "x"}, "size"), ({"size": 1, "image": ""}, "image"), ({"size": 1}, "image")])  # fmt: skip
def test_a_wrong_setting_is_named(spec: dict[str, object], field: str) -> None:
    """Also the example's own `size: aaa`."""
    with pytest.raises(SettingsInvalid, match=f"spec.{field}"):
        app.parse(spec)
