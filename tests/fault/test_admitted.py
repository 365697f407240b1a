"""Pods of `restricted=True` containers under Pod Security. Rows SEC19 and SEC20 of `tests/data/security.tsv`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hanei import App, Claim, Container, Deployment, Kind, Own, Scratch, Settings, StatefulSet, kinds, secret, setting
from hanei.plan.explore import sample_of
from hanei.render.render import own_of, render
from tests.system import world as w

if TYPE_CHECKING:
    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PROFILE = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)


class Strict(Settings):
    """Everything a container of ours may have."""

    word: str = setting("hello")


strict = App(Strict, group="strict.hanei.test", version="v1", kind="Strict", plural="stricts")


@strict.component
def web(spec: Strict, own: Own) -> Deployment:
    return Deployment(
        replicas=1,
        init=[Container(image="ours", name="first", restricted=True)],
        containers=[
            Container(
                image="ours", restricted=True, ports=[8080], files={"/etc/word": spec.word}, live_files={"/run/live/word": spec.word},
                env={"WORD": spec.word, "TOKEN": secret("token", "token", optional=True)},
            )
        ],
    )  # fmt: skip


@strict.component
def store(spec: Strict, own: Own) -> StatefulSet:
    return StatefulSet(
        replicas=1,
        claims=[Claim(size="1Mi", mount="/data")],
        containers=[Container(image="ours", restricted=True, volumes={"/tmp": Scratch()})],
    )


def violations(world: w.World, since: int) -> list[str]:
    """What Pod Security wrote into the audit log about this namespace."""
    assert world.cluster.audit_log is not None
    return [
        value
        for one in w.audited(world.cluster, agent="", since=since)
        if one.get("objectRef", {}).get("namespace") == world.namespace
        for key, value in one.get("annotations", {}).items()
        if key == "pod-security.kubernetes.io/audit-violations"
    ]


def apply(world: w.World, kind: Kind, name: str, body: dict[str, Any]) -> int:
    return world.request("PATCH", f"{kind.path(world.namespace, name)}?fieldManager=test&force=true", body, w.APPLY)[0]


def test_sec19_sec20_our_own_images_are_admitted_under_restricted_without_a_warning(
    cluster: Cluster, world: w.World
) -> None:
    """Pods of a Deployment and a StatefulSet come up; one container that is not restricted is noticed."""
    assert (
        cluster.request("PATCH", NAMESPACE.path(None, world.namespace), {"metadata": {"labels": PROFILE}}, w.MERGE)[0]
        == 200
    )
    mark = w.audit_mark(cluster)
    own = own_of(strict, "s", world.namespace, "")
    for component in render(strict, strict.parse(sample_of(strict)), own).components:
        assert component.error is None
        for item in component.objects:
            body = {**item.body, "metadata": {k: v for k, v in item.body["metadata"].items() if k != "ownerReferences"}}
            assert apply(world, item.kind, item.name, body) in (200, 201)
    w.wait_for("the pods", lambda: len(world.pods("web", "s")) == 1 and len(world.pods("store", "s")) == 1)
    assert violations(world, mark) == []
    for pod in world.list(kinds.POD):
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            context = {**pod["spec"]["securityContext"], **container["securityContext"]}
            assert context["runAsNonRoot"] is True
            assert context["runAsUser"] > 0
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
    loose = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: dict[str, Any] = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": loose}
    world.create(kinds.DEPLOYMENT, {"metadata": {"name": "loose"}, "spec": spec})
    assert violations(world, mark), "the search itself finds nothing"
