"""What the API server does to a resource's `spec` before it stores it: prune, drop nulls, fill in defaults.

The command line does the same before it validates, so that a file means what the cluster will make of it. Source: the
"Pruning" and "Defaulting" sections of the Kubernetes documentation on CustomResourceDefinitions.
"""

from __future__ import annotations

import copy
import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.crd.schema import Schema


def normalise(schema: Schema, value: Any) -> Any:
    """`value` as the server would store it. Wrongly typed parts are left as they are, for validation to refuse."""
    if isinstance(value, dict) and schema.get("type") == "object":
        return _map(schema, value)
    if isinstance(value, list) and schema.get("type") == "array":
        return [normalise(schema["items"], item) for item in value]
    return value


def _map(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("additionalProperties")
    if values is not None:
        return {key: normalise(values, item) for key, item in value.items() if item is not None}
    properties = schema.get("properties", {})
    kept = {key: item for key, item in value.items() if key in properties and item is not None}
    for key, inner in properties.items():
        if key not in kept and "default" in inner:
            kept[key] = copy.deepcopy(inner["default"])
    return {key: normalise(properties[key], item) for key, item in kept.items()}


def unknown(schema: Schema, value: Any, path: str = "spec") -> Iterator[tuple[str, str]]:
    """(path, the nearest known field or "") of every field that the schema does not know and the server would prune."""
    if isinstance(value, dict) and schema.get("type") == "object":
        values, properties = schema.get("additionalProperties"), schema.get("properties", {})
        for key, item in value.items():
            if values is not None:
                yield from unknown(values, item, f"{path}.{key}")
            elif key in properties:
                yield from unknown(properties[key], item, f"{path}.{key}")
            else:
                yield f"{path}.{key}", next(iter(difflib.get_close_matches(str(key), properties, n=1)), "")
    elif isinstance(value, list) and schema.get("type") == "array":
        for index, item in enumerate(value):
            yield from unknown(schema["items"], item, f"{path}[{index}]")
