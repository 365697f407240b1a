"""One app's operator: its informers, its queue and its controller, added to a manager.

Called by `hanei run` once per app. What wakes a reconcile is wired here and nowhere else: a changed resource, a changed
object of ours, a pod, an autoscaler, a Secret. Each only names a resource to look at; none carries what to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.errors import ApiError
from hanei.observe.logs import get_logger
from hanei.operator import project
from hanei.operator.apply import Writer
from hanei.operator.collect import Collector
from hanei.operator.events import Recorder
from hanei.operator.gather import Caches
from hanei.operator.reconcile import Parts, Reconciler
from hanei.operator.schema import served_spec, unknown_to
from hanei.operator.secrets import SecretWatch, StampKeys
from hanei.plan.explore import kinds_of, scale_component, uses_secrets
from hanei.render import labels
from hanei.runtime.controller import Controller
from hanei.runtime.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hanei.app.application import App
    from hanei.kube.client import Client
    from hanei.runtime.manager import Manager
    from hanei.runtime.store import Event, Key

log = get_logger(__name__)

POD_PAUSE = 0.1
"""Seconds that pod events are gathered before the status is looked at: a rollout is many of them."""


class AppOperator:
    """Everything that runs for one app in one manager."""

    def __init__(
        self,
        manager: Manager,
        client: Client,
        app: App[Any],
        *,
        namespace: str | None,
        home: str,
        identity: str = "hanei",
    ) -> None:
        """`namespace` is the one that is watched (None: all), `home` the operator's own; `identity` names it in Events."""
        settings = manager.settings
        self.app = app
        self.queue: WorkQueue[Key] = WorkQueue(base=settings.backoff_base, cap=settings.backoff_cap)
        leader = manager.leader
        leading: Callable[[], bool] = (lambda: leader.is_leader) if leader is not None else (lambda: True)
        made = kinds_of(app)
        self.caches = Caches(app, manager.informers, namespace, made, settings.overlay_life)
        secrets = None
        if uses_secrets(app):
            secrets = SecretWatch(manager.informers, StampKeys(client, manager.informers, home), self.queue.add)
        writer = Writer(client, self.caches, leading)
        self.reconciler = Reconciler(
            Parts(
                app, client, self.caches, writer, Recorder(client, app, identity), secrets, made, scale_component(app)
            )
        )
        self._client = client
        self._collector = Collector(client, self.caches, leading, settings)
        name = app.kind.plural
        manager.add_controller(
            Controller(name, self.reconciler, self.queue, settings.workers, settings, keys=self._keys)
        )
        manager.add_background(f"{name} collector", self._collector.run)
        manager.add_background(f"{name} schema", self._watch_schema)
        self._subscribe()

    def _subscribe(self) -> None:
        self.caches.resources.subscribe(self._resource_changed)
        for informer in self.caches.children.values():
            informer.subscribe(self._child_changed)
        self.caches.pod_informer.subscribe(self._pod_changed)
        self.caches.autoscaler_informer.subscribe(self._autoscaler_changed)

    def _resource_changed(self, event: Event) -> None:
        """Our own status writes are no news; a status that somebody else changed is."""
        item = event.item
        if event.old is None or event.new is None or event.old.meta.generation != event.new.meta.generation:
            self.queue.forget(item.key)  # a new spec gets a fresh start (situation S82)
        elif self.reconciler.own_versions.get(item.key) == item.meta.resourceVersion:
            return
        self.queue.add(item.key)

    def _child_changed(self, event: Event) -> None:
        owner = event.item.meta.controller
        if owner is None or owner.kind != self.app.kind.kind:
            # Ours by label, but its owner is gone: whoever wants the name will look.
            instance = event.item.meta.labels.get(labels.INSTANCE, "")
            for key in self._named(event.item.meta.namespace, instance):
                self.queue.add(key)
            return
        if not self.caches.is_echo(event):
            key = (event.item.meta.namespace, owner.name)
            if self.caches.was_taken(event):
                self.reconciler.bereft.add(key)
            self.queue.add(key)

    def _pod_changed(self, event: Event) -> None:
        item = event.item
        if (
            event.old is not None
            and event.new is not None
            and project.observed_pod(event.old) == project.observed_pod(event.new)
        ):
            return
        for key in self._named(item.meta.namespace, item.meta.labels.get(labels.INSTANCE, "")):
            self.queue.add_after(key, POD_PAUSE)

    def _autoscaler_changed(self, event: Event) -> None:
        targets = {value for item in (event.old, event.new) if item is not None for value in project.by_target(item)}
        for target in targets:
            namespace, kind_name, name = target.split("/", 2)
            for kind in kinds.WORKLOADS & self.caches.children.keys():
                item = self.caches.view(kind).get(namespace, name) if kind.kind == kind_name else None
                if item is not None and item.meta.controller is not None:
                    self.queue.add((namespace, item.meta.controller.name))

    def _named(self, namespace: str, instance: str) -> Iterator[Key]:
        for item in self.caches.resources.store.by_index(project.INSTANCE, f"{namespace}/{instance}"):
            yield item.key

    def _keys(self) -> list[Key]:
        return [item.key for item in self.caches.resources.store.all()]

    async def _watch_schema(self) -> None:
        """Compare the cluster's CRD with ours, now and then; a difference is said in the log and in every status."""
        while True:
            try:
                served = await served_spec(self._client, self.app)
            except ApiError as error:
                log.info("The schema could not be read", error=str(error))
            else:
                found = unknown_to(served, self.app) if served is not None else ()
                if found != self.reconciler.outdated:
                    self.reconciler.outdated = found
                    if found:
                        log.warning(
                            "The cluster's CRD is older than this app: settings are lost on the way in",
                            crd=f"{self.app.kind.plural}.{self.app.kind.group}",
                            unknown=list(found),
                        )
                    for key in self._keys():
                        self.queue.add(key)
            await asyncio.sleep(600)
