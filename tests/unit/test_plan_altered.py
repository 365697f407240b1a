"""What admission changed: told from the server's own rewriting of values."""

from __future__ import annotations

from typing import Any

import pytest

from hanei.plan.altered import altered


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": list(containers), **more}}


ONE = {"name": "one", "image": "x", "args": ["a", "b"], "resources": {"limits": {"cpu": "1000m", "memory": "1024Ki"}}}
STORED = {**ONE, "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}, "imagePullPolicy": "Always"}


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        pytest.param(pod(ONE), pod(STORED), id="amounts and defaults"),
        pytest.param(pod(ONE), pod({"name": "injected", "image": "y"}, STORED), id="an injected container"),
        pytest.param(pod(ONE, dnsConfig={}, hostAliases=[]), pod(STORED), id="empty values"),
        pytest.param({"spec": {"targetPort": "80"}}, {"spec": {"targetPort": 80}}, id="a number as text"),
        pytest.param(
            {"spec": {"mounts": [{"name": "v", "at": "/a"}, {"name": "v", "at": "/b"}]}},
            {"spec": {"mounts": [{"name": "v", "at": "/b", "mode": 1}, {"name": "v", "at": "/a", "mode": 1}]}},
            id="two items of one name",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {}}}, id="metadata: ownership sees it"
        ),
    ],
)
def test_what_the_server_rewrites_is_not_counted(wanted: dict[str, Any], stored: dict[str, Any]) -> None:
    assert altered(wanted, stored) == []


@pytest.mark.parametrize(
    ("stored", "paths"),
    [
        (pod({**STORED, "image": "mirror/x"}), ["spec.containers[one].image"]),
        (pod({**STORED, "args": ["a", "b", "c"]}), ["spec.containers[one].args"]),
        (pod({**STORED, "resources": {"limits": {"cpu": "2", "memory": "1Mi"}}}), ["spec.containers[one].resources.limits.cpu"]),
        (pod({"name": "other", "image": "x"}), ["spec.containers"]),
        ({"spec": {}}, ["spec.containers"]),
    ],
)  # fmt: skip
def test_what_admission_changed_is_named(stored: dict[str, Any], paths: list[str]) -> None:
    assert altered(pod(ONE), stored) == paths
