"""What the situation tests share: an operator of the shop, and short questions about it."""

from __future__ import annotations

import base64
import time
from typing import Any

from hanei import kinds
from tests.apps.shop import app as shop
from tests.system import world as w

SHOP = ("tests.apps.shop:app",)


def revision(world: w.World, name: str) -> str:
    return str(world.get(kinds.DEPLOYMENT, name)["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def generation(world: w.World, name: str) -> int:
    return int(world.get(kinds.DEPLOYMENT, name)["metadata"]["generation"])


def rotate(world: w.World, name: str, value: str) -> None:
    world.patch(kinds.SECRET, name, {"data": {"password": base64.b64encode(value.encode()).decode()}})


def new_secret(world: w.World, name: str = "shop-secret", value: str = "one") -> None:
    world.create(kinds.SECRET, {"metadata": {"name": name}, "stringData": {"password": value}})


def row(resource: dict[str, Any], component: str) -> dict[str, Any]:
    return next(one for one in resource["status"]["components"] if one["name"] == component)


def quiet(world: w.World, seconds: float = 3.0) -> list[tuple[str, str, str]]:
    """What the operator writes in the next seconds."""
    mark = w.audit_mark(world.cluster)
    time.sleep(seconds)
    return w.writes(w.audited(world.cluster, since=mark), world.namespace)


def events(world: w.World, reason: str) -> list[dict[str, Any]]:
    return [one for one in world.list(kinds.EVENT) if one.get("reason") == reason]


def row_hash(world: w.World, number: int) -> bool:
    """Whether the settings of this step are what web's workload carries."""
    found = world.get(shop.kind, "s")
    return (
        w.current(found)
        and row(found, "web").get("wantedHash")
        == world.get(kinds.DEPLOYMENT, "s-web")["spec"]["template"]["metadata"]["labels"]["hanei.dev/settings-hash"]
    )
