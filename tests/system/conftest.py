"""Fixtures of the system tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.apps.fragile import app as fragile
from tests.apps.shop import app as shop
from tests.system import world as w
from tests.system.shopping import SHOP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hanei.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(hanei_cluster: Cluster) -> Cluster:
    """The shared cluster, with the CRDs of all apps: early, for the garbage collector looks for new ones every 30 s only."""
    w.install(hanei_cluster, w.autolock, w.ochacafe, shop, fragile)
    return hanei_cluster


@pytest.fixture
def world(cluster: Cluster, hanei_namespace: str) -> w.World:
    """A namespace without an operator."""
    return w.World(cluster, hanei_namespace)


@pytest.fixture
def operator(world: w.World, tmp_path: Path) -> Iterator[w.Operator]:
    """An operator of both apps in the test's namespace, with exactly the rights that `hanei rbac` prints."""
    kubeconfig = w.grant(world.cluster, [w.autolock, w.ochacafe], world.namespace, tmp_path)
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log")) as found:
        yield found


@pytest.fixture
def keeper(world: w.World, tmp_path: Path) -> Iterator[w.Operator]:
    """An operator of the shop in the test's namespace."""
    kubeconfig = w.grant(world.cluster, [shop], world.namespace, tmp_path, secrets=("shop-secret", "other-secret"))
    with w.running(w.Operator(kubeconfig, tmp_path / "operator.log", SHOP)) as found:
        yield found
