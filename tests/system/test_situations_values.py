"""Situations F. Values and schema: `tests/data/situations.tsv`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hanei import kinds
from hanei.crd.definition import definition
from tests.apps.fragile import app as fragile
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import generation, revision

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

FRAGILE = ("tests.apps.fragile:app",)
pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_s66_a_file_over_the_limit_is_refused_before_any_write_of_its_component(
    world: w.World, keeper: w.Operator
) -> None:
    """1.2 MB: size and component stand in the condition; the others go on; the last good state stays live."""
    world.resource(shop, "s", {})
    world.ready(shop, "s")
    start = generation(world, "s-big")
    world.patch(shop.kind, "s", {"spec": {"size": 1_200_000, "greeting": "changed"}})
    found = world.condition_becomes(shop, "s", "Stalled", "RenderFailed")
    assert "big" in found["message"]
    assert "1,200," in found["message"]
    w.wait_for("web to change", lambda: revision(world, "s-web") == "2")
    assert generation(world, "s-big") == start
    world.patch(shop.kind, "s", {"spec": {"size": 20}})
    world.ready(shop, "s")


def test_s67_a_large_file_is_in_no_annotation(world: w.World, keeper: w.Operator) -> None:
    """900 kB of settings: annotations stay small."""
    world.resource(shop, "s", {"size": 900_000})
    world.ready(shop, "s")
    for kind in (kinds.DEPLOYMENT, kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION):
        for item in world.list(kind):
            assert len(json.dumps(item["metadata"].get("annotations", {}))) < 4000


@pytest.mark.xdist_group("fragile")
def test_s69_a_crd_older_than_the_app_is_said_in_status(world: w.World, cluster: Cluster, tmp_path: Path) -> None:
    """A setting that the cluster's CRD does not know would be lost: a condition names it."""
    older = definition(fragile)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["motto"]
    path = f"{kinds.CRD.path(None, older['metadata']['name'])}?fieldManager=test&force=true"
    try:
        assert cluster.request("PATCH", path, older, w.APPLY)[0] == 200
        published = "/openapi/v3/apis/fragile.hanei.test/v1"
        w.wait_for(
            "the schema to be published", lambda: "motto" not in json.dumps(cluster.request("GET", published)[1])
        )
        kubeconfig = w.grant(cluster, [fragile], world.namespace, tmp_path)
        with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", FRAGILE)):
            world.resource(fragile, "s", {})
            found = world.condition_becomes(fragile, "s", "SchemaCurrent", "SchemaOutdated")
            assert "motto" in found["message"]
    finally:
        w.install(cluster, fragile)


@pytest.mark.xdist_group("fragile")
def test_s70_s82_invalid_settings_are_said_on_the_resource_and_mended_at_once(
    world: w.World, cluster: Cluster, tmp_path: Path
) -> None:
    """The CRD was loosened, so the server lets a wrong value in: the last accepted settings stay in force, deleted
    children come back from them, and a mended spec gets a fresh start."""
    kubeconfig = w.grant(cluster, [fragile], world.namespace, tmp_path)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", FRAGILE)):
        world.resource(fragile, "s", {"greeting": "good"})
        world.ready(fragile, "s")
        loose = definition(fragile)
        del loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["level"][
            "enum"
        ]
        path = f"{kinds.CRD.path(None, loose['metadata']['name'])}?fieldManager=test&force=true"
        try:
            assert cluster.request("PATCH", path, loose, w.APPLY)[0] == 200
            w.wait_for(
                "the server to let it in",
                lambda: (
                    cluster.request(
                        "PATCH",
                        fragile.kind.path(world.namespace, "s"),
                        {"spec": {"level": "wrong", "greeting": "bad"}},
                        w.MERGE,
                    )[0]
                    == 200
                ),
            )
            found = world.condition_becomes(fragile, "s", "Ready", "SettingsInvalid")
            assert "spec.level" in found["message"]
            assert "wrong" in found["message"]
            good = world.get(kinds.DEPLOYMENT, "s-web")
            world.delete(kinds.DEPLOYMENT, "s-web")
            back = w.wait_for(
                "it from the record",
                lambda: (
                    one
                    if (one := world.find(kinds.DEPLOYMENT, "s-web"))
                    and one["metadata"]["uid"] != good["metadata"]["uid"]
                    else None
                ),
            )
            label = "hanei.dev/settings-hash"
            assert (
                back["spec"]["template"]["metadata"]["labels"][label]
                == good["spec"]["template"]["metadata"]["labels"][label]
            )
            world.patch(fragile.kind, "s", {"spec": {"level": "high"}})
            world.ready(fragile, "s")
        finally:
            w.install(cluster, fragile)
