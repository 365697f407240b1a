"""Settings models as structural schemas: what is rewritten, what is refused, and what a change would break."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from hanei import Rule, Settings, setting
from hanei.crd.diff import compare
from hanei.crd.normalise import normalise, unknown
from hanei.crd.schema import structural
from hanei.errors import AppError


def schema_of(annotation: Any, value: Any = ..., **options: Any) -> dict[str, Any]:
    """The schema of one field of this type."""
    declared = setting(**options) if value is ... else setting(value, **options)
    model = type(
        "Model", (Settings,), {"__annotations__": {"field": annotation}, "field": declared, "__module__": __name__}
    )
    found: dict[str, Any] = structural(model)["properties"]["field"]
    return found


def test_types_are_rewritten_as_the_server_wants_them() -> None:
    """Nullable unions, exclusive bounds, constants, sets and lists."""
    assert schema_of(int, gt=1, lt=9) == {
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": True,
    }
    assert schema_of(str | None, None) == {"type": "string"}
    assert schema_of(Literal["a"]) == {"type": "string", "enum": ["a"]}
    assert schema_of(set[str])["x-kubernetes-list-type"] == "set"
    assert schema_of(list[str])["x-kubernetes-list-type"] == "atomic"
    assert schema_of(dict[str, int]) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert schema_of(int, format="int32", doc="How many.") == {
        "type": "integer",
        "format": "int32",
        "description": "How many.",
    }
    assert schema_of(int, 3, rules=[Rule("self > 1", "too few")])["x-kubernetes-validations"] == [
        {"rule": "self > 1", "message": "too few"}
    ]


class Looped(Settings):
    """Contains itself."""

    inner: "Looped | None" = None


REFUSED: dict[str, tuple[Any, str]] = {
    "a union of two types": (int | list[str], "union"),
    "a tuple": (tuple[int, str], "one type for its items"),
    "a list of anything": (list[Any], "one type for its items"),
    "anything": (Any, "no structural schema"),
    "a map of anything": (dict[str, Any], "spec.field"),
    "recursion": (Looped, "contains itself"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_said_is_refused_with_its_path(case: str) -> None:
    """The message starts with the path of the field."""
    annotation, message = REFUSED[case]
    with pytest.raises(AppError, match=message) as caught:
        schema_of(annotation)
    assert str(caught.value).startswith("spec.field")


def test_wrong_list_keys_are_refused() -> None:
    """A key must be a scalar field that is always there."""

    class Item(Settings):
        name: str | None = None

    with pytest.raises(AppError, match="key 'nothing' is no scalar field"):
        schema_of(list[Item], keys=("nothing",))
    with pytest.raises(AppError, match="must be required or have a default"):
        schema_of(list[Item], keys=("name",))


NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "another type": (NUMBER, {"type": "string"}, True),
    "a narrower bound": (NUMBER, NUMBER | {"maximum": 5}, True),
    "a wider bound": (NUMBER, NUMBER | {"maximum": 50}, False),
    "a new bound": ({"type": "integer"}, {"type": "integer", "minimum": 1}, True),
    "a bound taken away": ({"type": "integer", "minimum": 1}, {"type": "integer"}, False),
    "a choice removed": ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"]}, True),
    "a choice added": ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a", "b"]}, False),
    "another default": ({"type": "string", "default": "a"}, {"type": "string", "default": "b"}, False),
    "a new pattern": ({"type": "string"}, {"type": "string", "pattern": "^a"}, True),
    "a removed field": ({"type": "object", "properties": {"a": NUMBER}}, {"type": "object", "properties": {}}, True),
    "a new field": ({"type": "object", "properties": {}}, {"type": "object", "properties": {"a": NUMBER}}, False),
    "a new required field": ({"type": "object", "properties": {}}, {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}, True),
    "a field that becomes required": ({"type": "object", "properties": {"a": NUMBER}}, {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}, True),
    "a new rule": (NUMBER, NUMBER | {"x-kubernetes-validations": [{"rule": "self > 1"}]}, True),
    "inside a list": ({"type": "array", "items": NUMBER}, {"type": "array", "items": {"type": "string"}}, True),
    "inside a map": ({"type": "object", "additionalProperties": NUMBER}, {"type": "object", "additionalProperties": {"type": "string"}}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_change_breaks_is_known(case: str) -> None:
    """Each kind of change, and whether stored resources may break; no change is no row."""
    old, new, breaks = CHANGES[case]
    found = list(compare(old, new))
    assert found
    assert any(change.breaks for change in found) is breaks
    assert list(compare(old, old)) == []


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "integer", "default": 1},
        "c": {"type": "object", "default": {}, "properties": {"d": {"type": "string", "default": "x"}}},
    },
}


def test_normalise_prunes_nulls_and_fills_in_defaults_like_the_server() -> None:
    """An absent group is made from its default, and its settings from theirs."""
    assert normalise(SCHEMA, {"a": "1", "z": 2, "b": None}) == {"a": "1", "b": 1, "c": {"d": "x"}}
    assert normalise(SCHEMA, {"a": None}) == {"b": 1, "c": {"d": "x"}}
    assert normalise(SCHEMA, {"c": {"d": None, "e": 1}})["c"] == {"d": "x"}


def test_unknown_fields_are_named_with_the_nearest_known_one() -> None:
    """What the server would prune silently."""
    assert list(unknown(SCHEMA, {"a": "1", "bb": 2, "c": {"dd": 1}})) == [("spec.bb", "b"), ("spec.c.dd", "d")]
