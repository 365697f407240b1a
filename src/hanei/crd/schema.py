"""A settings model as a structural OpenAPI v3 schema, as CustomResourceDefinitions want it.

`structural(model)` starts from pydantic's own JSON schema and rewrites what the API server does not take: references
are put inline, `anyOf [T, null]` becomes T, `const` an enum, exclusive bounds booleans, sets `x-kubernetes-list-type`.
What cannot be said in a structural schema is refused with its path. Rules: the "Structural schema" section of the
Kubernetes documentation on CustomResourceDefinitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hanei.app.settings import EXTRA, RULES, Settings
from hanei.errors import AppError

Schema = dict[str, Any]
_COPIED = (
    "type", "description", "format", "enum", "default", "minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "minProperties", "maxProperties", "x-kubernetes-int-or-string",
)  # fmt: skip
_SCALARS = ("string", "integer", "number", "boolean")
_MESSAGE = 2048
"""Characters of a rule's message that the API server takes."""


def structural(model: type[Settings], where: str = "spec") -> Schema:
    """The structural schema of a settings model. Raises `AppError` naming the path of what cannot be expressed."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(document, where, document.get("$defs", {}), ())


def _convert(node: Mapping[str, Any], path: str, definitions: Mapping[str, Any], stack: tuple[str, ...]) -> Schema:
    node, stack = _inline(node, path, definitions, stack)
    result: Schema = {key: node[key] for key in _COPIED if key in node and node[key] is not None}
    if "const" in node:
        result["enum"] = [node["const"]]
    if "enum" in result:
        result["type"] = _type_of_enum(result["enum"], path)
    for bound in ("Minimum", "Maximum"):
        if f"exclusive{bound}" in node:
            result[bound.lower()] = node[f"exclusive{bound}"]
            result[f"exclusive{bound}"] = True
    about = node.get(EXTRA) or {}
    if about.get("format"):
        result["format"] = about["format"]
    elif result.get("format") == "binary":
        raise AppError(f"{path}: bytes have no place in a resource", hint="use str")
    elif result.get("format") == "duration":
        raise AppError(f"{path}: a timedelta is written PT5M, which Kubernetes does not read", hint="use Duration: 5m")
    kind = result.get("type")
    if about.get("keys") and kind != "array":
        raise AppError(f"{path}: keys= tells the items of a list apart; this is a {kind}")
    if kind == "object":
        _object(result, node, path, definitions, stack)
    elif kind == "array":
        _array(result, node, about, path, definitions, stack)
    elif kind not in _SCALARS and not result.get("x-kubernetes-int-or-string"):
        raise AppError(
            f"{path}: its type has no structural schema",
            hint="use bool, int, float, str, an Enum or Literal, list, set, dict[str, …], Settings, Quantity, Duration, IntOrString, or one of these | None",
        )
    rules = [*(about.get("rules") or ()), *(node.get(RULES) or ())]
    if rules:
        result["x-kubernetes-validations"] = [_rule(rule, result, path) for rule in rules]
    if "default" in result:
        result["default"] = _ordered(result, result["default"])
    return result


def _ordered(schema: Schema, value: Any) -> Any:
    """A default with its sets sorted: pydantic writes them in the order of their hashes, another one in each process."""
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        values = schema.get("additionalProperties", {})
        return {key: _ordered(inner.get(key, values), item) for key, item in value.items()}
    if isinstance(value, list):
        items = [_ordered(schema.get("items", {}), item) for item in value]
        return sorted(items) if schema.get("x-kubernetes-list-type") == "set" else items
    return value


def _inline(
    node: Mapping[str, Any], path: str, definitions: Mapping[str, Any], stack: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """`node` with references, single `allOf` and nullable unions resolved."""
    while True:
        if "$ref" in node:
            name = str(node["$ref"]).rpartition("/")[2]
            if name in stack:
                raise AppError(
                    f"{path}: {name} contains itself; a structural schema cannot recurse", hint="give it a fixed depth"
                )
            stack = (*stack, name)
            node = {**definitions[name], **{key: item for key, item in node.items() if key != "$ref"}}
            continue
        if len(node.get("allOf", ())) == 1:
            node = {**node["allOf"][0], **{key: item for key, item in node.items() if key != "allOf"}}
            continue
        branches = node.get("anyOf") or node.get("oneOf")
        if branches is None:
            return node, stack
        real = [branch for branch in branches if branch.get("type") != "null"]
        outer = {key: item for key, item in node.items() if key not in ("anyOf", "oneOf", "discriminator")}
        if len(real) == 1:
            node = {**real[0], **outer}
        elif sorted(str(branch.get("type")) for branch in real) == ["integer", "string"]:
            node = {**outer, "x-kubernetes-int-or-string": True}
        else:
            raise AppError(
                f"{path}: a union of several types has no structural schema",
                hint="use one type, or IntOrString for a number or a name",
            )


def _object(
    result: Schema, node: Mapping[str, Any], path: str, definitions: Mapping[str, Any], stack: tuple[str, ...]
) -> None:
    extra = node.get("additionalProperties")
    if "propertyNames" in node:
        raise AppError(
            f"{path}: a map has keys of any text", hint="write dict[str, …]; a Rule may say which keys are meant"
        )
    if "properties" in node:
        result["properties"] = {
            key: _convert(item, f"{path}.{key}", definitions, stack) for key, item in node["properties"].items()
        }
        required = [key for key in node.get("required", ()) if key in node["properties"]]
        if required:
            result["required"] = required
    elif isinstance(extra, Mapping):
        result["additionalProperties"] = _convert(extra, f"{path}.*", definitions, stack)
    elif RULES not in node:  # every Settings class carries the mark, also one without fields
        raise AppError(f"{path}: a map needs the type of its values", hint="write dict[str, str] or a Settings class")


def _array(
    result: Schema,
    node: Mapping[str, Any],
    about: Mapping[str, Any],
    path: str,
    definitions: Mapping[str, Any],
    stack: tuple[str, ...],
) -> None:
    if "prefixItems" in node or not isinstance(node.get("items"), Mapping) or not node["items"]:
        raise AppError(
            f"{path}: a list needs one type for its items", hint="write list[str], or list[…] of a Settings class"
        )
    items = _convert(node["items"], f"{path}[]", definitions, stack)
    result["items"] = items
    keys = list(about.get("keys") or ())
    if node.get("uniqueItems"):
        if items.get("type") not in _SCALARS:
            raise AppError(f"{path}: a set holds scalars only", hint="use list[…] with keys=(…)")
        result["x-kubernetes-list-type"] = "set"
    elif keys:
        _check_keys(items, keys, path)
        result |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    else:
        result["x-kubernetes-list-type"] = "atomic"


def _check_keys(items: Schema, keys: list[str], path: str) -> None:
    for key in keys:
        item = items.get("properties", {}).get(key)
        if item is None or item.get("type") not in _SCALARS:
            raise AppError(f"{path}: key {key!r} is no scalar field of its items")
        if key not in items.get("required", ()) and "default" not in item:
            raise AppError(f"{path}: key {key!r} must be required or have a default")


def _type_of_enum(values: list[Any], path: str) -> str:
    names = {bool: "boolean", str: "string", int: "integer", float: "number"}
    kinds = {names.get(type(value), "") for value in values}
    if len(kinds) != 1 or "" in kinds:
        raise AppError(
            f"{path}: the choices {values!r} are of different types", hint="make them all text or all numbers"
        )
    return kinds.pop()


def _rule(rule: Any, schema: Schema, path: str) -> Schema:
    expression, message, field = rule["expression"], rule.get("message") or "", rule.get("field_path") or ""
    where = f"{path}: rule {expression!r}"
    if not expression.strip():
        raise AppError(f"{path}: a rule is empty", hint='write a CEL expression: Rule("self.low <= self.high")')
    if len(message) > _MESSAGE or "\n" in message:
        raise AppError(f"{where}: its message is one line of at most {_MESSAGE:,} characters")
    if "\n" in expression and not message:
        raise AppError(f"{where}: an expression of several lines needs a message")
    first = re.match(r"\.([A-Za-z_][A-Za-z0-9_]*)", field)
    if field and (first is None or first.group(1) not in schema.get("properties", {})):
        raise AppError(f"{where}: field_path {field!r} is no field of it", hint="such as field_path='.low'")
    found = {
        "rule": rule["expression"],
        "message": rule.get("message") or None,
        "fieldPath": rule.get("field_path") or None,
    }
    return {key: item for key, item in found.items() if item is not None}
