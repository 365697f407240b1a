"""One life of an application, from its first converge to its end, told as steps; and an operator that is started again.

A life runs in a namespace of its own, through a proxy of its own, so several go at once. The operator works without a
Lease here: who leads after a crash is `test_leaders`' question.
"""

from __future__ import annotations

import contextlib
import copy
import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.plan.explore import sample_of
from tests.fault import oracles
from tests.fault.proxy import Proxy, proxied
from tests.system import world as w

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hanei import App
    from hanei.cluster import Cluster

NAME = "one"


@dataclass
class Stage:
    """What a life happens on."""

    world: w.World
    app: App[Any]
    proxy: Proxy
    operator: w.Operator
    crashes: int = 0
    states: list[list[str]] = field(default_factory=list)
    """The end of each step, as O1 sees it."""

    def change(self, patch: dict[str, Any]) -> None:
        """A user's edit of the settings."""
        self.world.patch(self.app.kind, NAME, {"spec": patch})

    def converge(self) -> None:
        """Ready for the newest settings, honest about it, and what is there noted."""
        found = self.world.ready(self.app, NAME)
        oracles.honest(found, oracles.workloads(self.world, NAME))
        if self.app.history:
            w.wait_for("the settings to be called good", self._called_good)
            found = self.world.get(self.app.kind, NAME)
        if good := found["status"].get("lastGoodRevision"):
            record = self.world.get(kinds.CONTROLLER_REVISION, good)
            assert record["metadata"].get("annotations", {}).get("hanei.dev/good") == "true", (
                "status says good, the record does not"
            )
        self.states.append(oracles.end_state(self.world))

    def _called_good(self) -> bool:
        status = self.world.get(self.app.kind, NAME)["status"]
        return bool(status.get("revision") and status["revision"] == status.get("lastGoodRevision"))


@dataclass(frozen=True)
class Lived:
    """What a life leaves to compare."""

    states: list[list[str]]
    done: Counter[tuple[str, str, str]]
    writes: int
    crashes: int


def autolock_life(stage: Stage) -> None:
    """Each kind of effect once: create, restart, restart of two, scale, object, removal of an object, and the end."""
    spec = copy.deepcopy(sample_of(w.autolock))
    for component in ("webapp", "webhook"):
        spec[component]["replicas"] = 1
    stage.world.resource(w.autolock, NAME, spec)
    stage.converge()
    stage.change({"main": {"config": {"main": {"timeout_seq": 60}}}})
    stage.converge()
    stage.change({"main": {"config": {"mqtt": {"subscribe": {"open": {"topic": "/other"}}}}}})
    stage.converge()
    stage.change({"webapp": {"replicas": 2, "ingress": {"host": "other.example"}}})
    stage.converge()
    stage.change({"webhook": {"ingress": {"enabled": False}}})
    stage.converge()


def ochacafe_life(stage: Stage) -> None:
    """Create, scale, restart."""
    stage.world.resource(w.ochacafe, NAME, {"size": 1, "image": "nginx"})
    stage.converge()
    stage.change({"size": 2})
    stage.converge()
    stage.change({"image": "httpd"})
    stage.converge()


def end(stage: Stage) -> None:
    """The resource is deleted, and everything of it goes; nothing is made again."""
    stage.world.delete(stage.app.kind, NAME)
    owned = (kinds.DEPLOYMENT, kinds.STATEFUL_SET, kinds.SERVICE, kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION)
    w.wait_for(
        "everything to go",
        lambda: not any(stage.world.list(kind, "app.kubernetes.io/managed-by=hanei") for kind in owned),
    )


def live(
    cluster: Cluster,
    app: App[Any],
    life: Callable[[Stage], None],
    folder: Path,
    rule: Callable[[Proxy], None],
    *tune: str,
) -> Lived:
    """A whole life under a rule, with the oracles asked on the way and at the end."""
    with staged(cluster, app, folder, *tune) as stage:
        rule(stage.proxy)
        planted = oracles.look_alikes(stage.world, NAME)
        life(stage)
        oracles.quiet(stage.world)
        oracles.untouched(stage.world, planted)
        end(stage)
        return Lived(
            stage.states, oracles.creates_and_deletes(stage.proxy.trace), len(stage.proxy.writes()), stage.crashes
        )


@contextlib.contextmanager
def staged(cluster: Cluster, app: App[Any], folder: Path, *tune: str) -> Iterator[Stage]:
    """A namespace, an operator with exactly its rights, a proxy before it, and somebody who starts it again."""
    namespace = f"fault-{secrets.token_hex(4)}"
    assert cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    world = w.World(cluster, namespace)
    try:
        w.wait_for("the default account", lambda: world.find(kinds.SERVICE_ACCOUNT, "default"))
        kubeconfig = w.grant(cluster, [app], namespace, folder)
        operator = w.Operator(
            kubeconfig,
            folder / f"{namespace}.log",
            (_named(app),),
            ("--no-leader-election", *(part for knob in tune for part in ("--tune", knob))),
        )
        with proxied(kubeconfig, cluster.folder / "pki", lambda: _pid(operator)) as (proxy, through):
            operator.kubeconfig = through
            stage = Stage(world, app, proxy, operator)
            with w.running(operator), _restarted(stage):
                yield stage
    finally:
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _named(app: App[Any]) -> str:
    return {"Autolock": "autolock.app:app", "Ochacafe": "ochacafe.app:app"}[app.kind.kind]


def _pid(operator: w.Operator) -> int | None:
    process = operator.process
    return process.pid if process is not None and process.poll() is None else None


@contextlib.contextmanager
def _restarted(stage: Stage) -> Iterator[None]:
    """As a kubelet would: an operator that ended is started again. O8 is asked here: only SIGKILL ends it."""
    stop, codes = threading.Event(), list[int]()

    def watch() -> None:
        while not stop.wait(0.02):
            process = stage.operator.process
            if process is not None and process.poll() is not None:
                codes.append(process.returncode)
                stage.crashes += 1
                stage.operator.start()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert set(codes) <= {-9}, f"the operator exited by itself: {codes}"
