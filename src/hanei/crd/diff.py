"""What a change of the schema would break in stored resources.

`hanei crd --diff` compares the cluster's CRD with the app's. A change breaks when a stored resource that was valid may
no longer be: a removed or retyped field, a new required one without default, a narrower bound or choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.crd.schema import Schema

_LOWER, _UPPER = (
    ("minimum", "minLength", "minItems", "minProperties"),
    ("maximum", "maxLength", "maxItems", "maxProperties"),
)
_WIDER = frozenset(
    (("integer", "number"), ("integer", "int-or-string"), ("string", "int-or-string"), ("int32", "int64"), ("set", "atomic"), ("map", "atomic"))
)  # fmt: skip
"""Changes of a type, a format or a kind of list after which every stored value is still valid."""
_ANYTHING = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: where, what, and whether stored resources may break."""

    path: str
    what: str
    breaks: bool


def compare(old: Schema, new: Schema, path: str = "spec") -> Iterator[Change]:
    """Every difference that matters to stored resources, in order of path."""
    before, after = _type(old), _type(new)
    if before != after:
        wider = (before, after) in _WIDER
        yield Change(path, f"type {before} becomes {after}", not wider)
        if not wider:
            return
    yield from _bounds(old, new, path)
    yield from _choices(old, new, path)
    if old.get("default") != new.get("default"):
        yield Change(
            path, f"default {old.get('default')!r} becomes {new.get('default')!r}: reaches new resources only", False
        )
    for key in ("pattern", "format", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        was, now = old.get(key), new.get(key)
        if was != now:
            yield Change(path, f"{key} {was!r} becomes {now!r}", now is not None and (was, now) not in _WIDER)
    was, now = old.get("multipleOf"), new.get("multipleOf")
    if was != now:
        yield Change(path, f"multipleOf {was} becomes {now}", now is not None and (was is None or was % now != 0))
    if old.get("nullable") and not new.get("nullable"):
        yield Change(path, "null is no longer a value", True)
    yield from _rules(old, new, path)
    if before == after == "array":
        yield from compare(old["items"], new["items"], f"{path}[]")
    if before == after == "map":
        yield from compare(old["additionalProperties"], new["additionalProperties"], f"{path}.*")
    if before == after == "object":
        yield from _fields(old, new, path)


def _rules(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    before = [rule["rule"] for rule in old.get("x-kubernetes-validations", ())]
    after = [rule["rule"] for rule in new.get("x-kubernetes-validations", ())]
    for rule in after:
        if rule not in before:
            yield Change(path, f"new rule: {rule}", True)
    for rule in before:
        if rule not in after:
            yield Change(path, f"no rule any more: {rule}", False)


def _fields(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    before, after = old.get("properties", {}), new.get("properties", {})
    required = set(new.get("required", ()))
    if old.get(_ANYTHING) and not new.get(_ANYTHING):
        yield Change(path, "fields that are not declared are no longer kept", True)
    for key in before:
        if key not in after:
            yield Change(f"{path}.{key}", "is removed: its stored values are pruned at the next write", True)
        else:
            yield from compare(before[key], after[key], f"{path}.{key}")
            if key in required and key not in old.get("required", ()) and "default" not in after[key]:
                yield Change(f"{path}.{key}", "becomes required", True)
    for key in after:
        if key not in before:
            must = key in required and "default" not in after[key]
            yield Change(f"{path}.{key}", "is new and required" if must else "is new", must)


def _bounds(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    for key in (*_LOWER, *_UPPER):
        was, now = old.get(key), new.get(key)
        exclusive = f"exclusive{key.capitalize()}"
        if was != now:
            tighter = now is not None and (was is None or (now > was if key in _LOWER else now < was))
            yield Change(path, f"{key} {was} becomes {now}", tighter)
        elif now is not None and bool(old.get(exclusive)) != bool(new.get(exclusive)):
            narrower = bool(new.get(exclusive))
            yield Change(path, f"{key} {now} itself is {'no longer' if narrower else 'now'} allowed", narrower)


def _choices(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    was, now = old.get("enum"), new.get("enum")
    if was == now:
        return
    gone: list[Any] = [item for item in was or () if now is not None and item not in now]
    if now is None:
        yield Change(path, f"choices {was} are no longer the only ones", False)
    elif was is None or gone:
        yield Change(path, f"choices become {now}" if was is None else f"choices {gone} are removed", True)
    else:
        yield Change(path, f"choices become {now}", False)


def _type(schema: Schema) -> str:
    """The type, a map told from an object with named fields."""
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    if isinstance(schema.get("additionalProperties"), dict):
        return "map"
    return str(schema.get("type", "any"))
