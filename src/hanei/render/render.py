"""(app, settings, own) → desired objects: the one function that turns settings into what should exist.

Pure. Called by the reconcile, by `plan`, by `explain` and by `rbac`: the same code, so a preview cannot differ.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pydantic

from hanei.app.own import Own
from hanei.app.workloads import Workload
from hanei.errors import HaneiError, RenderError
from hanei.render.model import UNKNOWN, Rendered, RenderedComponent, SecretsView
from hanei.render.workload import Place, Stamp, build

if TYPE_CHECKING:
    from collections.abc import Collection

    from hanei.app.application import App, Component
    from hanei.app.settings import Settings
    from hanei.kinds import Kind

NO_SECRETS = SecretsView()


def own_of(app: App[Any], name: str, namespace: str, uid: str = "") -> Own:
    """`Own` of one resource of an app."""
    kind = app.kind
    return Own(name, namespace, uid, kind.group, kind.version, kind.kind, kind.plural, frozenset(app.components))


def render(
    app: App[Any],
    settings: Settings,
    own: Own,
    secrets: SecretsView = NO_SECRETS,
    *,
    allowed: Collection[Kind] | None = None,
    verify: bool = False,
) -> Rendered:
    """Render every component. A component that fails carries its error and no objects; the others are complete.

    `allowed` are the kinds that the operator has rights for; any other is refused by name. `verify` calls each
    component twice, and refuses one that gives two answers for one input.
    """
    done = [render_component(app, one, settings, own, secrets, allowed, verify) for one in app.components.values()]
    return Rendered(tuple(_unique(app, done)))


def render_component(
    app: App[Any],
    component: Component,
    settings: Settings,
    own: Own,
    secrets: SecretsView = NO_SECRETS,
    allowed: Collection[Kind] | None = None,
    verify: bool = False,
) -> RenderedComponent:
    """One component, as `render` does it. An error is carried in the result."""
    try:
        value = call(component, settings, own)
        if verify:
            _same_again(component, value, settings, own)
        if value is None:
            return RenderedComponent(component.name)
        rendered = build(Place(app, own, component.name), value, _stamp(component.name, value, secrets))
        for item in rendered.objects:
            if allowed is not None and item.kind not in allowed:
                raise RenderError(
                    f"component {component.name} ({component.module}): makes a {item.kind} which this app does not declare",
                    component=component.name,
                    field=str(item.kind),
                    hint=f"name {item.kind} in App(makes=(…,)), and apply `hanei rbac` again",
                )
    except RenderError as error:
        return RenderedComponent(component.name, error=error)
    unknown = tuple(ref for ref in rendered.secrets if (ref.name, ref.key) not in secrets.digests and not ref.optional)
    return replace(rendered, unknown_secrets=unknown)


def call(component: Component, settings: Settings, own: Own) -> Workload | None:
    """Call a component's function. Raises `RenderError` for whatever it raises, or where it returns no workload."""
    where = f"component {component.name} ({component.module})"
    try:
        value = component.function(settings, own)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RenderError(
            f"{where}: {error.title}.{field}: {first['msg']}", component=component.name, field=field
        ) from error
    except HaneiError as error:
        raise RenderError(f"{where}: {error.message}", component=component.name, hint=error.hint) from error
    except Exception as error:  # the author's code may raise anything; one component never stops the others
        raise RenderError(
            f"{where}: raised {type(error).__name__}: {error}",
            component=component.name,
            hint="the component must return a workload for every valid setting",
        ) from error
    if value is not None and not isinstance(value, Workload):
        raise RenderError(
            f"{where}: returned a {type(value).__name__}, expected Deployment, StatefulSet or None",
            component=component.name,
        )
    return value


def _same_again(component: Component, value: Workload | None, settings: Settings, own: Own) -> None:
    """Refuse a component that gives two answers for one input."""
    again = call(component, settings, own)
    if again != value:
        field = _first_difference(value, again)
        raise RenderError(
            f"component {component.name} ({component.module}): {field} differs between two calls with the same settings",
            component=component.name,
            field=field,
            hint="a component is a pure function: no clock, no randomness, no network",
        )


def _first_difference(first: Workload | None, second: Workload | None) -> str:
    if first is None or second is None:
        return "the result"
    for name in type(first).model_fields:
        if getattr(first, name) != getattr(second, name, None):
            return name
    return "the result"


def _stamp(component: str, value: Workload, secrets: SecretsView) -> Stamp:
    """How this component's secret stamp is chosen: by the live one, unless a referenced value is known to differ.

    A new HMAC key is used at the next real change, never by itself; an unknown value keeps the live stamp.
    """
    from hanei.render.pods import secrets_of

    refs = secrets_of(value)

    def of(key_id: str) -> str | None:
        parts = []
        for ref in refs:
            known = secrets.digests.get((ref.name, ref.key))
            if ref.name in secrets.unreadable:
                return None
            if known is None:
                if not ref.optional:
                    return None
                parts.append(f"{ref.name}/{ref.key}=absent")
            elif key_id in known:
                parts.append(f"{ref.name}/{ref.key}={known[key_id]}")
            else:
                return None
        return f"{key_id}:{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}"

    def choose(hash_with: Any) -> str:
        if not refs:
            return ""
        newest = of(secrets.newest) if secrets.newest else None
        live = secrets.live.get(component, "")
        if not live:
            return newest or UNKNOWN
        same = of(live.partition(":")[0])
        if same is None and live != UNKNOWN and newest is not None and live.partition(":")[0] not in _key_ids(secrets):
            same = live  # stamped with a key that is lost: nothing can be said, so nothing is
        if same is None:
            return newest if live == UNKNOWN and newest else live
        if same != live:
            return newest or live
        return live if hash_with(live) == secrets.live_hash.get(component) else newest or live

    return choose


def _key_ids(secrets: SecretsView) -> set[str]:
    return {key_id for known in secrets.digests.values() for key_id in known}


def _unique(app: App[Any], components: list[RenderedComponent]) -> list[RenderedComponent]:
    """Two components may not make one object: the later one is refused."""
    taken: dict[tuple[str, str], str] = {}
    result = []
    for item in components:
        # Workloads of one name would select each other's pods, whatever their kinds.
        claimed = {wanted.ref: wanted for wanted in item.objects}
        if item.workload is not None:
            claimed["", item.workload.name] = item.workload
        clash = next((ref for ref in claimed if ref in taken), None)
        if clash is not None:
            wanted, where = claimed[clash], f"component {item.name} ({app.components[item.name].module})"
            message = f"{where}: name: {wanted.kind} {wanted.name!r} is already made by component {taken[clash]}"
            error = RenderError(message, component=item.name, field="name", hint="give one of them another name=")
            item = RenderedComponent(item.name, error=error)
        else:
            taken |= dict.fromkeys(claimed, item.name)
        result.append(item)
    return result
