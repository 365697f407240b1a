"""Records of accepted settings: one `ControllerRevision` per accepted `spec`.

Its `data` is what never changes: the spec, each component's hash and pod template, and the inventory (kind, name, uid)
of what was made for it. The API server keeps it immutable; facts that come later are annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.app import names
from hanei.app.settings import RESERVED
from hanei.operator.project import RECORD_ROLE
from hanei.plan.effects import leaves_of, with_value
from hanei.render import labels
from hanei.render.canon import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanei.app.application import App
    from hanei.app.own import Own
    from hanei.kinds import Kind
    from hanei.plan.observed import Observed, ObservedObject, Record
    from hanei.render.model import Rendered


def recorded_spec(app: App[Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a spec that is a revision: without what Hanei adds, and without the path of `kubectl scale`."""
    found = {key: item for key, item in spec.items() if key not in RESERVED}
    return with_value(found, app.scale, None) if app.scale else found


def with_scale(app: App[Any], recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recorded spec with the scale that is asked for now: it is in no record. Anything but a count becomes 1."""
    if not app.scale:
        return recorded
    value = dict(leaves_of(asked)).get(app.scale)
    return with_value(recorded, app.scale, value if isinstance(value, int) and value >= 0 else 1)


def record_name(own: Own, spec: Mapping[str, Any], rendered: Rendered) -> str:
    """Derived from what is recorded, so that the same settings, rendered the same, are one record."""
    hashes = {component.name: component.hash for component in rendered.components}
    return f"{names.subdomain(own.name)}-{digest([own.kind, spec, hashes], 16)}"


def record_body(
    app: App[Any],
    own: Own,
    spec: Mapping[str, Any],
    rendered: Rendered,
    inventory: Iterable[ObservedObject],
    revision: int,
) -> dict[str, Any]:
    """The ControllerRevision, as it is applied."""
    templates = {
        component.name: component.workload.body["spec"]["template"]
        for component in rendered.components
        if component.workload is not None
    }
    listed = sorted((item.kind, item.name, item.uid) for item in inventory)
    owner = {"apiVersion": app.kind.api_version, "kind": own.kind, "name": own.name, "uid": own.uid, "controller": True}
    return {
        "apiVersion": kinds.CONTROLLER_REVISION.api_version,
        "kind": kinds.CONTROLLER_REVISION.kind,
        "metadata": {
            "name": record_name(own, spec, rendered),
            "namespace": own.namespace,
            "labels": {**labels.common(app.kind, own.name, "record"), labels.ROLE: RECORD_ROLE},
            "ownerReferences": [owner],
        },
        "revision": revision,
        "data": {
            "spec": dict(spec),
            "hashes": {component.name: component.hash for component in rendered.components},
            "templates": templates,
            "inventory": [
                {"apiVersion": kind.api_version, "kind": kind.kind, "plural": kind.plural, "name": name, "uid": uid}
                for kind, name, uid in listed
            ],
        },
    }


def inventory(rendered: Rendered, observed: Observed) -> list[ObservedObject]:
    """What exists of what is wanted."""
    wanted = {item.ref for component in rendered.components for item in component.objects}
    return [item for ref, item in observed.objects.items() if ref in wanted]


def given_up(records: Iterable[Record], made: frozenset[str]) -> list[tuple[Kind, str, str]]:
    """(kind, name, uid) of objects in old inventories whose kind the app makes no more: no cache has them.

    Volume claims are never among them.
    """
    return sorted(
        entry for record in records for entry in record.inventory if entry[0].kind not in made and entry[0] != kinds.PVC
    )
