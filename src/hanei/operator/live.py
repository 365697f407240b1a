"""The same facts as in the operator's caches, read live by a few lists: for `hanei plan`, which runs for one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.operator import project
from hanei.render import labels
from hanei.runtime.store import Store

if TYPE_CHECKING:
    from hanei.app.application import App
    from hanei.kinds import Kind
    from hanei.kube.client import Client
    from hanei.runtime.store import Cached, View


class Snapshot:
    """The objects of one app in one namespace, as they were a moment ago."""

    def __init__(self, made: frozenset[Kind], stores: dict[Kind, Store]) -> None:
        self.made = made
        self._stores = stores

    def has(self, kind: Kind) -> bool:
        """Whether a kind was listed."""
        return kind in self._stores

    def view(self, kind: Kind) -> View:
        """The objects of a kind."""
        return self._stores[kind]

    @property
    def pods(self) -> View:
        """The app's pods."""
        return self._stores[kinds.POD]

    @property
    def autoscalers(self) -> View:
        """All autoscalers of the namespace."""
        return self._stores[kinds.HPA]


async def snapshot(client: Client, app: App[Any], namespace: str, made: frozenset[Kind]) -> Snapshot:
    """List everything that a plan looks at. Raises the API server's errors."""
    selector = f"{labels.MANAGED_BY}=hanei,{labels.APP}={labels.app_label(app.kind)}"
    wanted = made | {kinds.POD, kinds.HPA} | ({kinds.CONTROLLER_REVISION} if app.history else set())
    stores = {}
    for kind in sorted(wanted):
        store = Store(
            {project.OWNER: project.by_owner, project.INSTANCE: project.by_instance, project.TARGET: _target_of(kind)}
        )
        transform = project.transform_for(kind)
        items: list[Cached] = []
        async for page in client.list_pages(kind, namespace, labels="" if kind == kinds.HPA else selector):
            items += map(transform, page.items)
        store.replace(items)
        stores[kind] = store
    return Snapshot(made, stores)


def _target_of(kind: Kind) -> Any:
    return project.by_target if kind == kinds.HPA else lambda item: ()
