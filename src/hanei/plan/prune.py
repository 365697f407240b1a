"""What is no longer wanted: objects of the resource that no component asks for any more.

Slices and live ConfigMaps are the collector's (`hanei.operator.collect`): pods of an older version still need them.
Volume claims are never removed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanei import kinds
from hanei.plan.model import Verb, Write
from hanei.plan.readiness import progress
from hanei.render.model import Rendered, Role

if TYPE_CHECKING:
    from hanei.plan.observed import Observed

_CARRIERS = (Role.SLICE.value, Role.LIVE.value)
_KEPT = frozenset((kinds.PVC.kind, kinds.CONTROLLER_REVISION.kind))


def removals(rendered: Rendered, observed: Observed, uid: str, declared: frozenset[str]) -> list[Write]:
    """Deletes, each for one uid. Only a component that rendered completely, or that the app gave up, loses anything.

    A workload that got another name stays until the new one is ready (situation S49); one that got another kind goes at
    once, for both would run under one name.
    """
    complete = {component.name for component in rendered.components if component.error is None}
    busy = {
        component.name: component.workload.name
        for component in rendered.components
        if component.workload is not None and not progress(component, observed).done
    }
    wanted = {item.ref for component in rendered.components for item in component.objects}
    result = []
    for ref, present in sorted(observed.objects.items()):
        if (
            ref in wanted
            or present.owner_uid != uid
            or present.deleting
            or present.role in _CARRIERS
            or present.kind.kind in _KEPT
        ):
            continue
        if present.component in declared and present.component not in complete:
            continue
        if present.role == Role.WORKLOAD.value and busy.get(present.component, present.name) != present.name:
            continue
        result.append(
            Write(
                Verb.DELETE,
                present.kind,
                present.name,
                present.component,
                None,
                present.uid,
                present.resource_version,
                "not wanted any more",
            )
        )
    return result
