"""Schemas in their corners: what is refused and why, what a change breaks, and that a default is a valid value."""

from __future__ import annotations

import datetime
from typing import Any, Literal, Optional

import pytest

from hanei import App, Column, Container, Deployment, Own, Quantity, Rule, Settings, setting
from hanei.crd.definition import definition, spec_schema
from hanei.crd.diff import Change, compare
from hanei.crd.normalise import normalise
from hanei.crd.schema import structural
from hanei.errors import AppError


def model(annotation: Any, **options: Any) -> type[Settings]:
    """A settings class with one field of this type."""
    parts = {"__annotations__": {"field": annotation}, "field": setting(**options), "__module__": __name__}
    return type("Model", (Settings,), parts)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "an ISO duration": (datetime.timedelta, {}, "spec.field: a timedelta is written PT5M"),
    "bytes": (bytes, {}, "spec.field: bytes have no place"),
    "a map with chosen keys": (dict[Literal["a", "b"], int], {}, "spec.field: a map has keys of any text"),
    "list keys of a text": (str, {"keys": ("a",)}, "spec.field: keys= tells the items of a list apart"),
    "choices of two types": (Literal[1, "a"], {}, "spec.field: the choices"),
    "a choice of nothing": (Literal["a", None], {}, "spec.field"),
    "a set of maps": (list[set[str]], {}, ""),
    "an empty rule": (int, {"rules": [Rule(" ")]}, "spec.field: a rule is empty"),
    "a message that is too long": (int, {"rules": [Rule("self > 1", "x" * 2049)]}, "one line of at most 2,048 characters"),
    "a message of two lines": (int, {"rules": [Rule("self > 1", "a\nb")]}, "one line"),
    "an expression of two lines without a message": (int, {"rules": [Rule("self >\n1")]}, "needs a message"),
    "a rule about a field that is not there": (int, {"rules": [Rule("self > 1", field_path=".low")]}, "field_path '.low' is no field of it"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_server_would_refuse_is_refused_with_its_path(case: str) -> None:
    """Before a CRD is printed."""
    annotation, options, message = REFUSED[case]
    if not message:
        structural(model(annotation, **options))
        return
    with pytest.raises(AppError) as caught:
        structural(model(annotation, **options))
    assert message in str(caught.value)
    assert str(caught.value).startswith("spec.field")


def test_the_definition_names_module_and_class_of_what_cannot_be_said() -> None:
    """Not only the path."""
    app: App[Any] = App(model(Any), group="a.example.com", version="v1", kind="Thing", plural="things")
    with pytest.raises(
        AppError, match=r"^tests\.unit\.test_crd_changes: Model: spec\.field: its type has no structural schema"
    ):
        definition(app)


DEFAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "out of range": (int, {"default": 5, "le": 3}, "the default 5 is not valid: found 5: input should be less than or equal to 3"),
    "of another type": (int, {"default": "a"}, "the default 'a' is not valid"),
    "nothing for what is needed": (str, {"default": None}, "the default None is not valid"),
    "too short": (str, {"default": "", "min_length": 1}, "the default '' is not valid"),
    "against its pattern": (str, {"default": "a", "pattern": "^b"}, "the default 'a' is not valid"),
    "no choice": (Literal["a"], {"default": "b"}, "the default 'b' is not valid"),
    "no quantity": (Quantity, {"default": "big"}, "the default 'big' is not valid: found 'big', expected an amount"),
    "wrong inside": (list[int], {"default": [1, "b"]}, "[1]: found 'b'"),
}  # fmt: skip


@pytest.mark.parametrize("case", DEFAULTS)
def test_a_default_that_is_no_valid_value_is_refused_with_class_and_field(case: str) -> None:
    """The API server would refuse the whole CRD."""
    annotation, options, message = DEFAULTS[case]
    with pytest.raises(AppError) as caught:
        model(annotation, **options)
    assert str(caught.value).startswith(f"{__name__}.Model.field: ")
    assert message in str(caught.value)


def test_a_default_of_a_text_type_is_that_type() -> None:
    """`setting("1Gi")` of a Quantity has a number, as a value from a resource does."""
    found: Any = model(Quantity, default="1Gi")()
    assert found.field.number == 2**30


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "("])
def test_a_pattern_that_the_server_cannot_read_is_refused(pattern: str) -> None:
    """Look-around and back-references: neither engine knows them."""
    with pytest.raises(AppError, match=r"test_crd_changes: the pattern .* cannot be checked"):
        setting("b", pattern=pattern)


def test_names_that_a_path_cannot_hold_and_names_used_twice_are_refused() -> None:
    """A dot would part the path; two fields of one name would hide each other."""
    with pytest.raises(AppError, match=r"Model\.field: 'a\.b' cannot be the name"):
        model(int, default=1, alias="a.b")
    with pytest.raises(AppError, match=r"Twice\.b: the name 'same' is already taken by a"):

        class Twice(Settings):
            a: int = setting(1, alias="same")
            b: int = setting(1, alias="same")


COLUMNS: dict[str, tuple[Column, str]] = {
    "no such field": (Column("Size", ".spec.size"), "column 'Size': .spec.size is no field"),
    "without the dot": (Column("Field", "spec.field"), "column 'Field': spec.field is no field"),
    "another type": (Column("Field", ".spec.field", type="text"), "column 'Field': type 'text' is none of"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_that_shows_nothing_is_refused(case: str) -> None:
    """With module and column."""
    column, message = COLUMNS[case]
    app: App[Any] = App(
        model(int, default=1), group="a.example.com", version="v1", kind="Thing", plural="things", columns=[column]
    )
    with pytest.raises(AppError) as caught:
        definition(app)
    assert f"{__name__}: {message}" in str(caught.value)


def of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
RULE = [{"rule": "self > 1"}]
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "whole numbers become numbers": (NUMBER, {"type": "number"}, False),
    "numbers become whole numbers": ({"type": "number"}, NUMBER, True),
    "text becomes a number or text": (TEXT, {"x-kubernetes-int-or-string": True}, False),
    "a number or text becomes text": ({"x-kubernetes-int-or-string": True}, TEXT, True),
    "32 bits become 64": (NUMBER | {"format": "int32"}, NUMBER | {"format": "int64"}, False),
    "64 bits become 32": (NUMBER | {"format": "int64"}, NUMBER | {"format": "int32"}, True),
    "any format becomes one": (TEXT, TEXT | {"format": "ipv4"}, True),
    "a format is given up": (TEXT | {"format": "ipv4"}, TEXT, False),
    "a pattern is given up": (TEXT | {"pattern": "a"}, TEXT, False),
    "another pattern": (TEXT | {"pattern": "a"}, TEXT | {"pattern": "b"}, True),
    "multiples become asked for": (NUMBER, NUMBER | {"multipleOf": 5}, True),
    "multiples become fewer": (NUMBER | {"multipleOf": 5}, NUMBER | {"multipleOf": 10}, True),
    "multiples become more": (NUMBER | {"multipleOf": 10}, NUMBER | {"multipleOf": 5}, False),
    "a bound becomes exclusive": (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 1, "exclusiveMinimum": True}, True),
    "a bound becomes inclusive": (NUMBER | {"minimum": 1, "exclusiveMinimum": True}, NUMBER | {"minimum": 1}, False),
    "shorter texts are refused": (TEXT | {"minLength": 1}, TEXT | {"minLength": 2}, True),
    "longer lists are refused": ({"type": "array", "items": TEXT, "maxItems": 3}, {"type": "array", "items": TEXT, "maxItems": 2}, True),
    "any value becomes a choice": (TEXT, TEXT | {"enum": ["a"]}, True),
    "a choice becomes any value": (TEXT | {"enum": ["a"]}, TEXT, False),
    "a list becomes a set": ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"}, {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, True),
    "a set becomes a list": ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, {"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"}, False),
    "a map becomes named fields": ({"type": "object", "additionalProperties": TEXT}, of(TEXT), True),
    "named fields become a map": (of(TEXT), {"type": "object", "additionalProperties": TEXT}, True),
    "undeclared fields were kept": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, of(TEXT), True),
    "null was a value": (TEXT | {"nullable": True}, TEXT, True),
    "a rule is given up": (NUMBER | {"x-kubernetes-validations": RULE}, NUMBER, False),
    "a default is given up": (of(TEXT | {"default": "a"}), of(TEXT), False),
    "required with a default": ({"type": "object", "properties": {}}, {**of(TEXT | {"default": "a"}), "required": ["a"]}, False),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_change_breaks_is_known(case: str) -> None:
    """Each kind of change is a row, and says whether stored resources may break."""
    old, new, breaks = CHANGES[case]
    found = list(compare(old, new))
    assert found
    assert any(change.breaks for change in found) is breaks, found
    assert list(compare(new, new)) == []


def test_a_description_is_no_change() -> None:
    """Nor is a rule's message."""
    old = NUMBER | {"description": "a", "x-kubernetes-validations": [{"rule": "self > 1", "message": "a"}]}
    new = NUMBER | {"description": "b", "x-kubernetes-validations": [{"rule": "self > 1", "message": "b"}]}
    assert list(compare(old, new)) == []


def test_changes_carry_the_path_of_the_field() -> None:
    """Through lists, maps and groups."""
    old = of({"type": "array", "items": {"type": "object", "additionalProperties": of(NUMBER)}})
    new = of({"type": "array", "items": {"type": "object", "additionalProperties": of(TEXT)}})
    assert list(compare(old, new)) == [Change("spec.a[].*.a", "type integer becomes string", True)]


class Group(Settings):
    low: int = setting(1)
    name: str | None = setting(None)


class Grouped(Settings):
    needed: Group
    given: Group = setting(Group(low=5))
    optional: Optional[Group] = setting(None)  # noqa: UP045 - both spellings are an author's
    groups: dict[str, Group] = setting({})
    listed: list[Group] = setting([])


grouped = App(Grouped, group="a.example.com", version="v1", kind="Thing", plural="things")
NORMAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a needed group is not made up": ({}, {}),
    "an empty group is filled": ({"needed": {}}, {"needed": {"low": 1}}),
    "null is nothing": ({"needed": {"low": None, "name": None}, "optional": None}, {"needed": {"low": 1}}),
    "a default group is filled": ({"given": {}}, {"given": {"low": 1}}),
    "inside lists and maps": ({"groups": {"a": {}}, "listed": [{"low": 2, "gone": 1}, {}]}, {"groups": {"a": {"low": 1}}, "listed": [{"low": 2}, {"low": 1}]}),
    "what is wrongly typed stays for validation": ({"needed": "x", "listed": {}}, {"needed": "x", "listed": {}}),
}  # fmt: skip


@pytest.mark.parametrize("case", NORMAL)
def test_normalise_does_what_the_server_does(case: str) -> None:
    """Prune, drop nulls, fill in defaults; twice is once."""
    given, wanted = NORMAL[case]
    schema = spec_schema(grouped)
    found = normalise(schema, given)
    assert found == {"given": {"low": 5}, "groups": {}, "listed": []} | wanted
    assert normalise(schema, found) == found


def test_settings_without_a_needed_one_may_be_left_out_altogether() -> None:
    """`spec` gets a default of its own, so that its settings get theirs."""
    app: App[Any] = App(model(int, default=1), group="a.example.com", version="v1", kind="Thing", plural="things")

    @app.component
    def one(spec: Any, own: Own) -> Deployment:
        return Deployment(containers=[Container(image="x")])

    root = definition(app)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["properties"]["spec"]["default"] == {}
    assert "required" not in root
    assert definition(grouped)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] == ["spec"]
