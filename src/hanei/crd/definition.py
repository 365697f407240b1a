"""The CustomResourceDefinition of an app: names, schema, status, scale and columns.

`hanei crd` prints it; the operator compares the cluster's with it (situation S69).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanei.app.application import App, Column
from hanei.crd.schema import Schema, structural
from hanei.errors import AppError

if TYPE_CHECKING:
    from hanei.app.settings import Settings

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "format": "int32"}
_LONG: Schema = {"type": "integer", "format": "int64"}
_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": _TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": _TEXT,
        "message": _TEXT,
        "observedGeneration": _LONG,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
_PODS: Schema = {"type": "object", "properties": {"wanted": _NUMBER, "updated": _NUMBER, "ready": _NUMBER}}
_COMPONENT: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "workload": {"type": "string", "description": "Kind/name of the workload."},
        "wantedHash": {"type": "string", "description": "The component hash that the settings lead to."},
        "liveHash": {
            "type": "string",
            "description": "The component hash that all pods carry; empty while they differ.",
        },
        "pods": _PODS,
        "state": {"type": "string", "description": "Ready, Progressing, Waiting, Suspended, Stalled or Absent."},
        "reason": _TEXT,
        "waitsFor": {"type": "string", "description": "What the component waits for."},
    },
}
_STATUS: Schema = {
    "conditions": {"type": "array", "items": _CONDITION, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    "observedGeneration": _LONG,
    "revision": {"type": "string", "description": "The record of the accepted settings."},
    "lastGoodRevision": {"type": "string", "description": "The latest record with which every component was ready."},
    "components": {"type": "array", "items": _COMPONENT, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
}  # fmt: skip
_SUSPEND: Schema = {
    "type": "boolean",
    "description": "Hanei leaves everything of this resource as it is while this is true.",
}
_READY = '.status.conditions[?(@.type=="Ready")]'
OWN_COLUMNS = (
    Column("Ready", f"{_READY}.status", doc="Whether everything runs with these settings."),
    Column("Reason", f"{_READY}.reason", doc="Why, in a word."),
    Column("Message", f"{_READY}.message", doc="Why, in a sentence.", wide=True),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)


def definition(app: App[Any]) -> dict[str, Any]:
    """The CRD as an object for `kubectl apply`. Raises `AppError` where the settings cannot be expressed."""
    kind = app.kind
    schema = schema_of(app)
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": app.singular}
    if app.short_names:
        names["shortNames"] = list(app.short_names)  # type: ignore[assignment]
    if app.categories:
        names["categories"] = list(app.categories)  # type: ignore[assignment]
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": _subresources(app),
        "additionalPrinterColumns": [_column(app.module, schema, column) for column in (*app.columns, *OWN_COLUMNS)],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "labels": {"app.kubernetes.io/managed-by": "hanei"}},
        "spec": {"group": kind.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def schema_of(app: App[Any]) -> Schema:
    """The schema of a whole resource of the app."""
    spec = spec_schema(app)
    description = (app.settings.__doc__ or f"{app.kind.kind} of {app.kind.group}").strip()
    result: Schema = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status_schema(app),
        },
    }
    if spec.get("required"):
        result["required"] = ["spec"]
    else:
        spec["default"] = {}
    return result


def spec_schema(app: App[Any]) -> Schema:
    """The schema of `spec`: the settings, and what Hanei adds to every resource."""
    schema = _structural(app, app.settings, "spec")
    schema.setdefault("properties", {})["suspend"] = dict(_SUSPEND)
    return schema


def status_schema(app: App[Any]) -> Schema:
    """The schema of `status`: Hanei's part and the app's own."""
    properties = dict(_STATUS)
    if app.scale:
        properties |= {"replicas": _NUMBER, "selector": _TEXT}
    if app.status_model is not None:
        properties |= _structural(app, app.status_model, "status").get("properties", {})
    return {"type": "object", "properties": properties}


def _structural(app: App[Any], model: type[Settings], where: str) -> Schema:
    try:
        return structural(model, where)
    except AppError as error:
        raise AppError(f"{app.module}: {model.__name__}: {error.message}", hint=error.hint) from error


def _subresources(app: App[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"status": {}}
    if app.scale:
        found["scale"] = {
            "specReplicasPath": f".spec.{app.scale}",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return found


def _column(module: str, schema: Schema, column: Column) -> dict[str, Any]:
    where = f"{module}: column {column.name!r}"
    if column.type not in ("", "string", "integer", "number", "boolean", "date"):
        raise AppError(f"{where}: type {column.type!r} is none of string, integer, number, boolean, date")
    found = {"name": column.name, "type": column.type or _type_at(where, schema, column), "jsonPath": column.path}
    if column.doc:
        found["description"] = column.doc
    if column.wide:
        found["priority"] = 1  # type: ignore[assignment]
    return found


def _type_at(where: str, schema: Schema, column: Column) -> str:
    if "[" in column.path or column.path.startswith(".metadata."):
        return "string"
    node = schema
    for part in column.path.strip(".").split("."):
        inner = node.get("properties", {}).get(part) if column.path.startswith(".") else None
        if inner is None:
            raise AppError(
                f"{where}: {column.path} is no field of the resource",
                hint="a path starts with .spec. or .status.",
            )
        node = inner
    kind = str(node.get("type", "string"))
    return kind if kind in ("integer", "number", "boolean", "string") else "string"
