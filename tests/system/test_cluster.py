"""The local cluster does what a cluster is for: every claim of its documentation on the real programs."""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hanei.cluster import Cluster, Node, State, down, find, status, up
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.system

_APPS = "/apis/apps/v1/namespaces"


@pytest.fixture
def name() -> Iterator[str]:
    """A cluster name of this test's own; whatever the test did, nothing of it is left running."""
    made = f"own-{secrets.token_hex(3)}"
    yield made
    down(made)


def _until(reached: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    limit = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < limit, what
        time.sleep(0.05)


def _post(cluster: Cluster, path: str, body: dict[str, Any]) -> dict[str, Any]:
    code, answer = cluster.request("POST", path, body)
    assert code == 201, answer
    return answer


def _template(labels: dict[str, str], image: str = "example.org/web:1") -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}


def _workload(kind: str, image: str = "example.org/web:1", replicas: int = 2) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": _template(labels, image)},
    }


def _ready(cluster: Cluster, path: str) -> int:
    answer: int = cluster.request("GET", path)[1].get("status", {}).get("readyReplicas", 0)
    return answer


def _processes_of(folder: Path) -> list[str]:
    """Command lines of all processes that name the folder."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) + b"/" in line:
            lines.append(line.replace(b"\0", b" ").decode())
    return lines


def test_pods_of_a_deployment_become_ready(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """Scheduler, controllers and simulated nodes work together."""
    _post(hanei_cluster, f"{_APPS}/{hanei_namespace}/deployments", _workload("Deployment"))
    _until(lambda: _ready(hanei_cluster, f"{_APPS}/{hanei_namespace}/deployments/web") == 2, "no Ready pods")


def test_an_image_that_no_registry_has_keeps_its_pod_waiting(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """A registry under .invalid is how a test gets a pod that fails."""
    image = "registry.invalid/web:1"
    _post(hanei_cluster, f"{_APPS}/{hanei_namespace}/deployments", _workload("Deployment", image, replicas=1))

    def reasons() -> list[str]:
        pods = hanei_cluster.request("GET", f"/api/v1/namespaces/{hanei_namespace}/pods")[1]["items"]
        containers = [entry for pod in pods for entry in pod["status"].get("containerStatuses", [])]
        return [entry["state"].get("waiting", {}).get("reason", "") for entry in containers]

    _until(lambda: reasons() == ["ImagePullBackOff"], f"{reasons()}")
    assert _ready(hanei_cluster, f"{_APPS}/{hanei_namespace}/deployments/web") == 0


def test_a_stateful_set_gets_its_volume_and_the_volume_goes_with_the_claim(
    hanei_cluster: Cluster, hanei_namespace: str
) -> None:
    """The default StorageClass binds claims, and what it made is removed with them."""
    body = _workload("StatefulSet", replicas=1)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body["spec"] |= {"serviceName": "web", "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}
    _post(hanei_cluster, f"{_APPS}/{hanei_namespace}/statefulsets", body)
    _until(lambda: _ready(hanei_cluster, f"{_APPS}/{hanei_namespace}/statefulsets/web") == 1, "no Ready pod")

    path = f"/api/v1/namespaces/{hanei_namespace}/persistentvolumeclaims/data-web-0"
    bound = hanei_cluster.request("GET", path)[1]
    assert bound["status"]["phase"] == "Bound"
    volume = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"

    hanei_cluster.request("DELETE", f"{_APPS}/{hanei_namespace}/statefulsets/web")
    hanei_cluster.request("DELETE", path)
    _until(lambda: hanei_cluster.request("GET", volume)[0] == 404, "the volume stays")


def test_deleting_an_owner_collects_what_it_owns(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """The garbage collector runs."""
    path = f"{_APPS}/{hanei_namespace}/deployments"
    _post(hanei_cluster, path, _workload("Deployment"))
    pods = f"/api/v1/namespaces/{hanei_namespace}/pods"
    _until(lambda: len(hanei_cluster.request("GET", pods)[1]["items"]) == 2, "no pods")
    hanei_cluster.request("DELETE", f"{path}/web")
    _until(lambda: hanei_cluster.request("GET", pods)[1]["items"] == [], "the pods stay")
    assert hanei_cluster.request("GET", f"{_APPS}/{hanei_namespace}/replicasets")[1]["items"] == []


def test_a_token_of_a_service_account_is_good_and_has_no_rights(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """TokenRequest works, and RBAC is on: what nobody granted is refused."""
    accounts = f"/api/v1/namespaces/{hanei_namespace}/serviceaccounts"
    token = _post(hanei_cluster, f"{accounts}/default/token", {"spec": {"expirationSeconds": 600}})["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = _post(hanei_cluster, "/apis/authentication.k8s.io/v1/tokenreviews", review)
    user = answer["status"]["user"]["username"]
    assert user == f"system:serviceaccount:{hanei_namespace}:default"
    access = {"user": user, "resourceAttributes": {"verb": "list", "resource": "secrets"}}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": access}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert _post(hanei_cluster, path, asked)["status"]["allowed"] is False


def test_a_write_is_in_the_audit_log_when_its_answer_arrives(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """Tests count writes there, without waiting."""
    if hanei_cluster.audit_log is None:
        pytest.skip("an existing cluster has no audit log here")
    config_map = {"metadata": {"name": "counted"}, "data": {"secret-looking": "hunter2"}}
    _post(hanei_cluster, f"/api/v1/namespaces/{hanei_namespace}/configmaps", config_map)
    lines = hanei_cluster.audit_log.read_text()
    assert "hunter2" not in lines
    events = [json.loads(line) for line in lines.splitlines() if hanei_namespace in line]
    writes = [event for event in events if event.get("objectRef", {}).get("name") == "counted"]
    assert [(event["verb"], event["responseStatus"]["code"], event["stage"]) for event in writes] == [
        ("create", 201, "ResponseComplete")
    ]
    assert writes[0]["user"]["username"] == "hanei-admin"
    assert writes[0]["userAgent"] == "hanei-cluster"


def test_a_second_cluster_runs_beside_and_leaves_nothing(hanei_cluster: Cluster, name: str) -> None:
    """Clusters share nothing; `up` of a running one returns it; after `down` no process and no file is left."""
    second = up(name)
    assert second.server != hanei_cluster.server
    assert up(name) == second == find(name)
    assert (name, State.RUNNING) in {(row.name, row.state) for row in status()}
    _post(second, "/api/v1/namespaces", {"metadata": {"name": "only-here"}})
    assert hanei_cluster.request("GET", "/api/v1/namespaces/only-here")[0] == 404
    assert len(_processes_of(second.folder)) == 5

    assert down(name) is True
    assert _processes_of(second.folder) == []
    assert not second.folder.exists()
    assert down(name) is False


def test_without_nodes_two_programs_are_enough(name: str) -> None:
    """`--node none` keeps objects and nothing acts on them; another kind under this name is refused."""
    cluster = up(name, node="none")
    assert cluster.node is Node.NONE
    assert len(_processes_of(cluster.folder)) == 2
    assert cluster.request("GET", "/api/v1/nodes")[1]["items"] == []
    with pytest.raises(ClusterError, match="runs with node none, not simulated"):
        up(name)


def test_a_cluster_that_lost_a_program_is_stale_and_made_anew(name: str) -> None:
    """As after a reboot: `status` tells, `up` cleans up and starts a fresh one."""
    cluster = up(name, node="none")
    os.kill(int((cluster.folder / "pids" / "etcd").read_text()), 9)
    _until(lambda: find(name) is None, "still found")
    assert (name, State.STALE) in {(row.name, row.state) for row in status()}
    anew = up(name, node="none")
    assert anew.request("GET", "/readyz")[0] == 200
    assert len(_processes_of(cluster.folder)) == 2


def test_an_existing_cluster_is_used_as_it_is(hanei_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """HANEI_KUBECONFIG wins over name and node, and nothing of that cluster is ours."""
    monkeypatch.setenv("HANEI_KUBECONFIG", str(hanei_cluster.kubeconfig))
    used = up("whatever", node="none")
    assert (used.node, used.server, used.audit_log) == (Node.EXISTING, hanei_cluster.server, None)
    assert used.request("GET", "/readyz")[0] == 200
    assert down("whatever") is False
    assert hanei_cluster.request("GET", "/readyz")[0] == 200
