"""Paths of kinds."""

from __future__ import annotations

import pytest

from hanei import kinds
from hanei.errors import WrongUse
from hanei.kinds import Kind

CAFE = Kind("ochacafe.oracle.com", "v1alpha1", "Ochacafe", "ochacaves")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (kinds.POD.path("ns", "web"), "/api/v1/namespaces/ns/pods/web"),
        (kinds.POD.path(None), "/api/v1/pods"),
        (kinds.POD.path("ns"), "/api/v1/namespaces/ns/pods"),
        (kinds.DEPLOYMENT.path("ns", "web", "scale"), "/apis/apps/v1/namespaces/ns/deployments/web/scale"),
        (kinds.NAMESPACE.path(None, "ns"), "/api/v1/namespaces/ns"),
        (kinds.CRD.path("ignored", "x.y"), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.y"),
        (CAFE.path("ns", "one", "status"), "/apis/ochacafe.oracle.com/v1alpha1/namespaces/ns/ochacaves/one/status"),
        (kinds.ROLE.path("ns", "system:a b"), "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/system:a%20b"),
    ],
)
def test_a_path_is_where_the_server_expects_it(path: str, wanted: str) -> None:
    """Core group, named groups, all namespaces, subresources, and what must be quoted."""
    assert path == wanted


@pytest.mark.parametrize("segment", ["", ".", "..", "a/b", "../secrets", "%2e%2e"])
def test_sec09_a_segment_that_could_mean_another_object_is_refused(segment: str) -> None:
    """Names come from users and from objects of others."""
    with pytest.raises(WrongUse):
        kinds.POD.path("ns", segment)
    with pytest.raises(WrongUse):
        kinds.POD.path(segment, "web")


def test_a_namespaced_object_needs_its_namespace() -> None:
    """Else the path would be another kind's."""
    with pytest.raises(WrongUse, match="namespace is missing"):
        kinds.POD.path(None, "web")


def test_built_in_kinds_are_known_by_their_words() -> None:
    """As objects carry them; others are not guessed."""
    assert kinds.known("apps/v1", "Deployment") is kinds.DEPLOYMENT
    assert kinds.known("v1", "Secret") is kinds.SECRET
    assert kinds.known("apps/v1beta1", "Deployment") is None
