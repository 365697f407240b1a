"""Fixtures for tests that need Kubernetes: `hanei_cluster` (one for the session) and `hanei_namespace` (one a test).

All workers of pytest-xdist share one cluster, started by the first test that asks. It ends with the session, also an
interrupted one; what a killed session leaves is stopped by the next. ``HANEI_KUBECONFIG`` names an existing cluster to use instead; ``HANEI_KEEP_CLUSTER=1`` uses the local
cluster "test" and leaves it running, so that the next run starts at once.
"""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from hanei.cluster import Cluster, Node, up
from hanei.testing import shared

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT_NAME = "test"
_NAME = pytest.StashKey[str]()
"""The session's cluster, on the config of each process that has joined it."""

_PATIENCE = 30.0
"""Seconds for the default ServiceAccount of a new namespace."""


@pytest.fixture(scope="session")
def hanei_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster, the same one for all workers of this session."""
    if os.environ.get("HANEI_KUBECONFIG"):
        yield up()
    elif os.environ.get("HANEI_KEEP_CLUSTER") == "1":
        yield up(_KEPT_NAME)
    else:
        shared.sweep()
        name = shared.PREFIX + _run_id(request.config)
        request.config.stash[_NAME] = name
        yield shared.use(name)


@pytest.fixture
def hanei_namespace(hanei_cluster: Cluster) -> Iterator[str]:
    """The name of a fresh namespace, ready for pods; its deletion is begun afterwards, and not waited for."""
    name = f"test-{secrets.token_hex(4)}"
    _made(hanei_cluster, name)
    yield name
    hanei_cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With pytest-xdist: the controlling process is a user too, so the cluster outlives a worker that is done early."""
    config: pytest.Config = node.config
    if _NAME not in config.stash:
        config.stash[_NAME] = shared.PREFIX + _short(node.workerinput["testrunuid"])
        shared.join(config.stash[_NAME])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Runs at the end of every process, also of an interrupted session, and in the controlling one after its workers."""
    name = config.stash.get(_NAME, None)
    if name is not None:
        del config.stash[_NAME]
        shared.leave(name)


def _run_id(config: pytest.Config) -> str:
    """The same in all workers of one session, another in each session."""
    given = getattr(config, "workerinput", {}).get("testrunuid")
    return _short(given) if given else secrets.token_hex(4)


def _short(run: str) -> str:
    return run[:8].lower()


def _made(cluster: Cluster, namespace: str) -> None:
    """Create a namespace; with controllers around, wait until it accepts pods."""
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert status == 201, answer
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    limit = time.monotonic() + _PATIENCE
    while cluster.node is not Node.NONE and cluster.request("GET", account)[0] != 200:
        assert time.monotonic() < limit, f"namespace {namespace} got no default ServiceAccount"
        time.sleep(0.02)
