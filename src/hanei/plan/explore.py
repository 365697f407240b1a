"""Other valid values for each setting, and what they would do: how `explain` learns without being told.

Every leaf is tried with other values, in the sample and in the sample's variants (each optional group given and left
out, each switch the other way, each choice taken), so that a setting which only matters in one branch is found there.
Also finds the kinds that an app makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise, unknown
from hanei.errors import AppError, RenderError, SettingsInvalid
from hanei.kinds import Kind, known
from hanei.plan.effects import between, leaves_of, with_value
from hanei.plan.model import RANK, Effect, strongest
from hanei.render.render import call, own_of, render, render_component

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hanei.app.application import App, Component
    from hanei.crd.schema import Schema
    from hanei.render.model import Rendered

MAX_VARIANTS = 24
"""Variants of the sample that are tried; a bound on the time of `explain`, met only by apps of many switches."""
MAX_OTHERS = 4
"""Other values tried per setting and variant."""
Along = Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]
EXAMPLE = "example"
_FORMATS = {
    "ipv4": ("192.0.2.1", "192.0.2.2"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "date": ("2026-01-01", "2026-01-02"),
    "date-time": ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    "uuid": ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"),
    "uri": ("https://example.com/a", "https://example.com/b"),
    "email": ("a@example.com", "b@example.com"),
}
_TEXTS = (
    "a",
    "b",
    "1",
    "2",
    "10s",
    "20s",
    "1Gi",
    "2Gi",
    "/a",
    "/b",
    "a.example.com",
    "b.example.com",
    "10.0.0.0/8",
    "v1",
    "A",
    "aaa",
    "#000000",
    "0000",
)


@dataclass(frozen=True, slots=True)
class Explored:
    """What was learned: setting → component → strongest effect, and every kind that was made."""

    effects: Mapping[str, Mapping[str, Effect]]
    kinds: frozenset[Kind]

    @property
    def unread(self) -> tuple[str, ...]:
        """Settings that no component reads."""
        return tuple(
            path for path, found in self.effects.items() if all(effect is Effect.NONE for effect in found.values())
        )


def sample_of(app: App[Any]) -> dict[str, Any]:
    """The app's sample, or one made up from the schema; normalised. Raises `AppError` if none can be made up."""
    schema = spec_schema(app)
    for path, near in unknown(schema, app.sample or {}, "sample"):
        raise AppError(
            f"{app.module}: {path} is no setting of {app.kind.kind}", hint=f"did you mean {near}?" if near else ""
        )
    spec = normalise(schema, app.sample if app.sample is not None else synthesise(schema))
    try:
        app.parse(spec)
    except SettingsInvalid as error:
        raise AppError(
            f"{app.module}: no sample of {app.kind.kind} can be made up: {error}", hint="give one: App(…, sample={…})"
        ) from error
    return dict(spec)


def explore(app: App[Any], along: Along = list) -> Explored:
    """Learn what each setting does to each component. Pure, and bounded by the number of settings and switches.

    `along` is given the variants and gives them back one by one: a place for a progress bar.
    """
    schema, sample = spec_schema(app), sample_of(app)
    leaves = [(path, leaf) for path, leaf in schema_leaves(schema) if path != "suspend"]
    effects: dict[str, dict[str, Effect]] = {path: dict.fromkeys(app.components, Effect.NONE) for path, _ in leaves}
    rendered = []
    for spec in along(list(variants_of(app, schema, sample))):
        base, values = _Base(app, spec), dict(leaves_of(spec))
        rendered.append(base.rendered)
        for path, leaf in leaves:
            for other in others(leaf, values.get(path))[: MAX_OTHERS if spec is sample else 2]:
                changed = normalise(schema, with_value(spec, path, other))
                base.learn(changed, effects[path], thorough=spec is sample)
    return Explored(effects, _kinds(app, rendered))


def kinds_of(app: App[Any]) -> frozenset[Kind]:
    """The kinds that the app makes, in the sample and its variants, and those in `makes`."""
    schema, sample = spec_schema(app), sample_of(app)
    return _kinds(app, [_render(app, spec) for spec in variants_of(app, schema, sample)])


def uses_secrets(app: App[Any]) -> bool:
    """Whether any component refers to a Secret, in the sample or its variants."""
    schema, sample = spec_schema(app), sample_of(app)
    return any(
        component.secrets for spec in variants_of(app, schema, sample) for component in _render(app, spec).components
    )


def scale_component(app: App[Any]) -> str:
    """The component whose pods the `scale=` path counts; "" without one. Raises `AppError` if it scales nothing."""
    if not app.scale:
        return ""
    schema, sample = spec_schema(app), sample_of(app)
    leaf, value = dict(schema_leaves(schema))[app.scale], dict(leaves_of(sample)).get(app.scale)
    for other in others(leaf, value):
        tried = _tried(app, schema, sample, app.scale, other)
        for one, two in zip(_render(app, sample).components, tried.components if tried else (), strict=False):
            if Effect.SCALE in between(one, two):
                return one.name
    raise AppError(
        f"{app.module}: scale={app.scale!r} changes no component's replicas",
        hint="name the setting that a component passes on as replicas=",
    )


def rendered_sample(app: App[Any]) -> Rendered:
    """The sample, rendered for a resource that does not exist."""
    return _render(app, sample_of(app))


def variants_of(app: App[Any], schema: Schema, sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The sample; then the sample with each optional group the other way, each switch, each other choice, each list and
    map empty or filled, each count at zero, and each empty text filled: the widest branches first."""
    yield sample
    made = 0
    for path, other in (*_groups(schema, sample), *_turns(schema, dict(leaves_of(sample)))):
        spec = normalise(schema, with_value(sample, path, other))
        if made < MAX_VARIANTS and spec != sample and _valid(app, spec):
            made += 1
            yield spec


def _groups(schema: Schema, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, other value) of every group that may be left out: one made up where it is absent, None where it is given."""
    present = value if isinstance(value, dict) else {}
    for key, inner in schema.get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        if "properties" not in inner:
            continue
        if key not in present:
            yield below, synthesise(inner)
        elif key not in schema.get("required", ()) and "default" not in inner:
            yield below, None
        yield from _groups(inner, present.get(key), below)


def _turns(schema: Schema, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, other value) of every leaf that a component may branch on."""
    ranked: list[tuple[int, str, Any]] = []
    for path, leaf in schema_leaves(schema):
        value = values.get(path)
        kinds = (
            leaf.get("type") == "boolean",
            "enum" in leaf,
            leaf.get("type") in ("array", "object"),
            leaf.get("minimum") == 0,
            value in ("", None),
        )
        if path != "suspend" and any(kinds):
            ranked += [(kinds.index(True), path, other) for other in others(leaf, value)]
    yield from ((path, other) for _, path, other in sorted(ranked, key=lambda item: item[0]))


def schema_leaves(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """(dotted path, its schema) of every setting; lists and maps are one."""
    if "properties" in schema:
        for key, inner in schema["properties"].items():
            yield from schema_leaves(inner, f"{path}.{key}" if path else key)
    elif path:
        yield path, schema


def others(leaf: Schema, value: Any) -> list[Any]:
    """A few values of a setting other than the present one. They may be invalid: validation sorts them out."""
    found: list[Any]
    kind = leaf.get("type")
    if "enum" in leaf:
        found = list(leaf["enum"])
    elif kind == "boolean":
        found = [True, False]
    elif kind in ("integer", "number"):
        base = value if isinstance(value, int | float) else leaf.get("minimum", 0)
        found = [base + 1, base - 1, leaf.get("minimum"), leaf.get("maximum"), 0]
    elif kind == "array":
        found = [[], [synthesise(leaf["items"])]]
    elif kind == "object":
        found = [{}, {EXAMPLE: synthesise(leaf.get("additionalProperties", {}))}]
    else:
        found = _texts(leaf, value)
    different = {repr(item): item for item in found if item is not None and item != value}
    return list(different.values())[:MAX_OTHERS]


def synthesise(schema: Schema) -> Any:
    """A valid value made up from a schema, as small as can be."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {key: synthesise(schema["properties"][key]) for key in schema.get("required", ())}
    if kind == "array":
        return [synthesise(schema["items"])] * int(schema.get("minItems", 0))
    if kind == "boolean":
        return False
    if kind in ("integer", "number"):
        low = schema.get("minimum", min(1, schema.get("maximum", 1)))
        return low + 1 if schema.get("exclusiveMinimum") else low
    return next(iter(_texts(schema, None)), EXAMPLE)


def _texts(leaf: Schema, value: Any) -> list[str]:
    low, high, pattern = leaf.get("minLength", 0), leaf.get("maxLength", 1 << 20), leaf.get("pattern")
    present = value if isinstance(value, str) else ""
    candidates = (*_FORMATS.get(leaf.get("format", ""), ()), f"{present}x", f"{present}1", EXAMPLE, *_TEXTS, "a" * low)
    return [text for text in candidates if low <= len(text) <= high and _matches(pattern, text)]


def _matches(pattern: str | None, text: str) -> bool:
    try:
        return pattern is None or re.search(pattern, text) is not None
    except re.error:  # the server's dialect, not Python's: validation sorts it out
        return True


def _tried(app: App[Any], schema: Schema, spec: dict[str, Any], path: str, other: Any) -> Rendered | None:
    changed = normalise(schema, with_value(spec, path, other))
    return _render(app, changed) if _valid(app, changed) else None


class _Base:
    """One variant, rendered once. A component whose function returns the same for another spec is the same: only what
    differs is rendered and compared."""

    def __init__(self, app: App[Any], spec: dict[str, Any]) -> None:
        self.spec = spec
        self.rendered = _render(app, spec)
        self._app = app
        self._own = own_of(app, EXAMPLE, "default")
        self._values = self._called(app.parse(spec))

    def learn(self, spec: dict[str, Any], found: dict[str, Effect], *, thorough: bool) -> None:
        """Raise the effects in `found` to what this other spec does. An invalid one teaches nothing; a component that is
        known to restart is not tried again, unless `thorough`."""
        try:
            settings = self._app.parse(spec)
        except SettingsInvalid:
            return
        for before in self.rendered.components:
            component = self._app.components[before.name]
            settled = not thorough and RANK[found[before.name]] >= RANK[Effect.RESTART]
            if before.error is not None or settled or self._one(component, settings) == self._values[before.name]:
                continue
            after = render_component(self._app, component, settings, self._own)
            effect = strongest(between(before, after)) if after.error is None else Effect.NONE
            if RANK[effect] > RANK[found[before.name]]:
                found[before.name] = effect

    def _called(self, settings: Any) -> dict[str, Any]:
        return {name: self._one(component, settings) for name, component in self._app.components.items()}

    def _one(self, component: Component, settings: Any) -> Any:
        try:
            return call(component, settings, self._own)
        except RenderError as error:
            return error.message


def _valid(app: App[Any], spec: dict[str, Any]) -> bool:
    try:
        app.parse(spec)
    except SettingsInvalid:
        return False
    return True


def _render(app: App[Any], spec: Mapping[str, Any]) -> Rendered:
    return render(app, app.parse(spec), own_of(app, EXAMPLE, "default"))


def _kinds(app: App[Any], rendered: list[Rendered]) -> frozenset[Kind]:
    made = {item.kind for one in rendered for component in one.components for item in component.objects}
    return frozenset(made | {known(kind.api_version, kind.kind) or kind for kind in app.makes})
