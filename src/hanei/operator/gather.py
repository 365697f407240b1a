"""Reads: everything that is known of one resource, from caches only, with own writes laid over them.

`Caches` holds the informers of one app; `gather` turns them into the frozen `Observed` that decisions are made from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from hanei import kinds
from hanei.app import names
from hanei.operator import project
from hanei.plan.observed import Observed
from hanei.render import labels
from hanei.runtime.keep import keep
from hanei.runtime.overlay import Overlay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanei.app.application import App
    from hanei.app.own import Own
    from hanei.kinds import Kind
    from hanei.plan.observed import ObservedObject, Record
    from hanei.render.model import Rendered
    from hanei.runtime.informer import Informer
    from hanei.runtime.informers import Informers
    from hanei.runtime.store import Cached, Event, View


class Caches:
    """The informers of one app and the overlays of its own writes.

    `resources` are the app's own; `children` those kinds that it makes, selected by label. Records and pods are among
    the children's informers but are read apart.
    """

    def __init__(
        self, app: App[Any], informers: Informers, namespace: str | None, made: Iterable[Kind], life: float = 60.0
    ) -> None:
        self.app = app
        self.namespace = namespace
        selector = f"{labels.MANAGED_BY}=hanei,{labels.APP}={labels.app_label(app.kind)}"
        self._resource = keep(app.kind, "spec", "status", managers=None)  # every manager: the cause names who
        self.resources = informers.get(
            app.kind, namespace, transform=self._resource,
            indexes={project.INSTANCE: lambda item: (f"{item.meta.namespace}/{names.subdomain(item.meta.name)}",)},
        )  # fmt: skip
        self.made = frozenset(made)
        wanted = self.made | ({kinds.CONTROLLER_REVISION} if app.history else set())
        self.children: dict[Kind, Informer] = {
            kind: informers.get(
                kind,
                namespace,
                labels=selector,
                transform=project.transform_for(kind),
                indexes={project.OWNER: project.by_owner},
            )
            for kind in sorted(wanted)
        }
        self._transforms = {kind: project.transform_for(kind) for kind in self.children}
        self._versions: dict[tuple[Kind, tuple[str, str]], str] = {}
        self.pod_informer = informers.get(
            kinds.POD,
            namespace,
            labels=selector,
            transform=project.transform_for(kinds.POD),
            indexes={project.INSTANCE: project.by_instance},
        )
        self.autoscaler_informer = informers.get(
            kinds.HPA,
            namespace,
            transform=project.transform_for(kinds.HPA),
            indexes={project.TARGET: project.by_target},
        )
        self._resources = Overlay(self.resources.store, life)
        self._overlays = {kind: Overlay(informer.store, life) for kind, informer in self.children.items()}

    def resource(self, namespace: str, name: str) -> Cached | None:
        """A resource of the app, with our own status over it."""
        return self._resources.get(namespace, name)

    def wrote_status(self, raw: bytes) -> Cached:
        """Remember the resource as it is after a status write of ours."""
        item = self._resource(raw)
        self._resources.record_write(item)
        return item

    @property
    def pods(self) -> View:
        """The app's pods."""
        return self.pod_informer.store

    @property
    def autoscalers(self) -> View:
        """All autoscalers in reach."""
        return self.autoscaler_informer.store

    def has(self, kind: Kind) -> bool:
        """Whether a kind is watched."""
        return kind in self.children

    def view(self, kind: Kind) -> View:
        """A kind's cache with our own writes over it."""
        return self._overlays[kind]

    def wrote(self, kind: Kind, raw: bytes) -> Cached:
        """Remember the server's answer to a write of ours until the cache shows it."""
        item = self._transforms[kind](raw) if kind in self._transforms else project.transform_for(kind)(raw)
        if kind in self._overlays:
            self._overlays[kind].record_write(item)
            self._versions[(kind, item.key)] = item.meta.resourceVersion
        return item

    def is_echo(self, event: Event) -> bool:
        """Whether an event is only our own write coming back."""
        new = event.new
        if new is None:
            return False
        version = self._versions.get((new.kind, new.key))
        if version == new.meta.resourceVersion:
            del self._versions[(new.kind, new.key)]
            return True
        return False

    def was_taken(self, event: Event) -> bool:
        """Whether an event tells that somebody else deleted an object."""
        item = event.item
        return event.new is None and not self._overlays[item.kind].deleted_by_us(item.key, item.meta.uid)

    def deleted(self, kind: Kind, key: tuple[str, str], uid: str) -> None:
        """Remember a delete of ours until the cache shows it."""
        if kind in self._overlays:
            self._overlays[kind].record_delete(kind, key, uid)


class Sources(Protocol):
    """Where facts come from: caches in the operator, a few lists in `hanei plan`."""

    made: frozenset[Kind]

    def has(self, kind: Kind) -> bool: ...
    def view(self, kind: Kind) -> View: ...
    @property
    def pods(self) -> View: ...
    @property
    def autoscalers(self) -> View: ...


def gather(sources: Sources, own: Own) -> Observed:
    """Everything that is known of a resource, by its uid."""
    objects: dict[tuple[str, str], ObservedObject] = {}
    for kind in sources.made:
        for item in sources.view(kind).by_index(project.OWNER, own.uid):
            found = project.observed_object(item)
            objects[found.ref] = found
    place = f"{own.namespace}/{names.subdomain(own.name)}"
    pods = sorted(map(project.observed_pod, sources.pods.by_index(project.INSTANCE, place)), key=lambda pod: pod.name)
    workloads = [ref for ref, item in objects.items() if item.kind in kinds.WORKLOADS]
    targets = {ref: f"{own.namespace}/{ref[0]}/{ref[1]}" for ref in workloads}
    autoscaled = frozenset(
        ref for ref, target in targets.items() if sources.autoscalers.by_index(project.TARGET, target)
    )
    return Observed(own.uid, objects, tuple(pods), _records(sources, own), autoscaled)


def _records(sources: Sources, own: Own) -> tuple[Record, ...]:
    if not sources.has(kinds.CONTROLLER_REVISION):
        return ()
    owned = sources.view(kinds.CONTROLLER_REVISION).by_index(project.OWNER, own.uid)
    return tuple(
        sorted(map(project.record, filter(project.is_record, owned)), key=lambda one: (one.revision, one.name))
    )


def with_named(sources: Sources, own: Own, observed: Observed, rendered: Rendered) -> Observed:
    """`observed` with objects of wanted names that carry our labels but another owner: an earlier uid, or a rival."""
    objects = dict(observed.objects)
    for component in rendered.components:
        for wanted in component.objects:
            item = (
                sources.view(wanted.kind).get(own.namespace, wanted.name)
                if wanted.ref not in objects and sources.has(wanted.kind)
                else None
            )
            if item is not None:
                objects[wanted.ref] = project.observed_object(item)
    return replace(observed, objects=objects)
