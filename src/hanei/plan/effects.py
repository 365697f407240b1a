"""What a difference between two renderings does to a component, and which settings cause it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hanei.errors import SettingsInvalid
from hanei.plan.model import RANK, Effect, strongest
from hanei.render.model import Facets, Rendered, RenderedComponent

_ABSENT = object()
_STEP = re.compile(r"(?<!\\)\.")
"""Where a path is divided: at a dot that is not part of a key."""
RenderSpec = Callable[[Mapping[str, Any]], Rendered]
"""Renders a `spec` of JSON values; raises `SettingsInvalid`."""

OF_TEMPLATE = {"RollingUpdate": Effect.RESTART, "Recreate": Effect.RECREATE, "OnDelete": Effect.MANUAL}
"""What a changed pod template does, by the workload's strategy."""


def between(old: RenderedComponent, new: RenderedComponent) -> frozenset[Effect]:
    """The effects of going from one rendering of a component to another."""
    if new.error is not None or old.error is not None:
        return frozenset({Effect.REFUSED} if new.error is not None else {Effect.CREATE})
    if old.facets is None or new.facets is None:
        if old.facets is new.facets:
            return frozenset()
        return frozenset({Effect.REMOVE if new.facets is None else Effect.CREATE})
    if old.workload is not None and new.workload is not None and old.workload.kind != new.workload.kind:
        return frozenset({Effect.REPLACE})
    return frozenset(_between(old.facets, new.facets))


def _between(old: Facets, new: Facets) -> Iterator[Effect]:
    if old.immutable != new.immutable:
        yield Effect.REFUSED
    if old.template != new.template:
        yield OF_TEMPLATE[new.strategy]
    elif old.live != new.live:
        yield Effect.LIVE
    if old.replicas != new.replicas:
        yield Effect.SCALE
    if old.objects != new.objects or (old.rest != new.rest and old.immutable == new.immutable):
        yield Effect.OBJECT


def leaves_of(spec: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of every leaf; a list is one leaf, an empty map too."""
    if isinstance(spec, Mapping) and spec:
        for key, item in spec.items():
            name = str(key).replace("\\", "\\\\").replace(".", "\\.")  # a key of a map may hold a dot
            yield from leaves_of(item, f"{path}.{name}" if path else name)
    elif path:
        yield path, spec


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that differ: path → (old value, new value), None where absent. In order of the new spec."""
    before, after = dict(leaves_of(old)), dict(leaves_of(new))
    paths = [*after, *(path for path in before if path not in after)]
    return {
        path: (before.get(path), after.get(path))
        for path in paths
        if before.get(path, _ABSENT) != after.get(path, _ABSENT)
    }


def steps(path: str) -> list[str]:
    """The keys that a dotted path goes through."""
    return [step.replace("\\.", ".").replace("\\\\", "\\") for step in _STEP.split(path)]


def with_value(spec: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """`spec` with one leaf set, or taken away where the value is None."""
    return _with_value(spec, steps(path), value)


def _with_value(spec: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    head, *rest = path
    result = dict(spec)
    if rest:
        inner = result.get(head)
        result[head] = _with_value(inner if isinstance(inner, Mapping) else {}, rest, value)
    elif value is None:
        result.pop(head, None)
    else:
        result[head] = value
    return result


def attribute(old: Mapping[str, Any], new: Mapping[str, Any], render: RenderSpec) -> dict[str, dict[str, Effect]]:
    """Which changed setting does what to which component: component → setting → its strongest effect there.

    A setting is tried alone on the old settings and taken back alone from the new ones, so that a setting which only
    matters together with another one is found too.
    """
    differences = changed(old, new)
    before, after = render(old), render(new)
    result: dict[str, dict[str, Effect]] = {}
    for path, (was, now) in differences.items():
        steps = [(before, after)] if len(differences) == 1 else _steps(old, new, path, was, now, before, after, render)
        for first, second in steps:
            for one, other in zip(first.components, second.components, strict=True):
                effect = strongest(between(one, other))
                known = result.setdefault(one.name, {}).get(path, Effect.NONE)
                if effect is not Effect.NONE and RANK[effect] >= RANK[known]:
                    result[one.name][path] = effect
    return result


def _steps(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    path: str,
    was: Any,
    now: Any,
    before: Rendered,
    after: Rendered,
    render: RenderSpec,
) -> Iterator[tuple[Rendered, Rendered]]:
    for first, second, spec in ((before, None, with_value(old, path, now)), (None, after, with_value(new, path, was))):
        try:
            tried = render(spec)
        except SettingsInvalid:
            continue  # valid only together with another change: the other direction, or the other setting, tells
        yield (first or tried, second or tried)
