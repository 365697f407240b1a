"""The patch of managedFields after which an apply leaves exactly what we want of an object.

An apply alone cannot: it never takes away what another entry owns too. Two cases need the patch. An entry that shadows
ours is dropped (see `hanei.plan.ownership`). And a list item of ours that somebody renamed is put into our entry, so
that the apply removes it: to the server a renamed item (a container's name, a Service port's number) is ours removed
and a foreign one added, and an apply would put ours beside it: two locks at one bolt, or a Service refused because two
ports have one name. Such an item is told from a foreign one (an injected sidecar) by its place and its content: it
stands where ours stood, has every field that ours has, and shares a value with it.

The patch touches nothing but managedFields, so no pod moves by it and no validation can refuse it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson

from hanei.kinds import FIELD_MANAGER
from hanei.plan.ownership import is_shadow, same_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Nodes = Sequence[Mapping[str, Any]]
    Path = tuple[str, ...]


def untangled(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A JSON patch that holds for this very `live` object; empty where it is in order."""
    metadata = live["metadata"]
    entries: list[dict[str, Any]] = metadata.get("managedFields", [])
    kept = [copy.deepcopy(entry) for entry in entries if not _is_shadow(entry)]
    ours = next((entry for entry in kept if _is_ours(entry)), None)
    if ours is None:  # without any entry the next apply would make a shadow
        ours = {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": wanted["apiVersion"]}
        ours |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": {}}}}
        kept.append(ours)
    for path in _renamed(wanted, live):
        for entry in kept:
            if not entry.get("subresource"):
                _drop(entry["fieldsV1"], path)
        _add(ours["fieldsV1"], path)
    if kept == entries:
        return []
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/managedFields", "value": [entry for entry in kept if entry["fieldsV1"]]},
    ]


def _is_shadow(entry: Mapping[str, Any]) -> bool:
    return is_shadow(entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _drop(node: dict[str, Any], path: Path) -> None:
    """Take a path out of an entry, and the nodes that it leaves empty (an empty node would be a leaf)."""
    head, *rest = path
    if head not in node:
        return
    if rest:
        _drop(node[head], tuple(rest))
    if not rest or not node[head]:
        del node[head]


def _add(node: dict[str, Any], path: Path) -> None:
    for key in path:
        node = node.setdefault(key, {})
    node["."] = {}


def _renamed(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> list[Path]:
    """The paths of our list items under their new names. Metadata is not looked at: its lists are not ours to name."""
    entries = live["metadata"].get("managedFields", ())
    nodes = [entry["fieldsV1"] for entry in entries if not entry.get("subresource")]
    return list(_walk({key: value for key, value in wanted.items() if key != "metadata"}, live, nodes, ()))


def _walk(wanted: Any, live: Any, nodes: Nodes, path: Path) -> Iterator[Path]:
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key, value in wanted.items():
            if key in live:
                yield from _walk(value, live[key], _below(nodes, f"f:{key}"), (*path, f"f:{key}"))
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _items(wanted, live, nodes, path)


def _items(wanted: list[Any], live: list[Any], nodes: Nodes, path: Path) -> Iterator[Path]:
    keys = {key: orjson.loads(key[2:]) for node in nodes for key in node if key.startswith("k:")}
    names = {name for match in keys.values() for name in match}
    places = [_place(item, live, names) for item in wanted]  # none where items have no names: a list taken as a whole
    before = -1
    for item, place in zip(wanted, places, strict=True):
        here = before + 1 if place is None else place
        key = next((key for key, match in keys.items() if here < len(live) and same_item(match, live[here])), None)
        if key is None:
            continue
        if place is not None:
            yield from _walk(item, live[place], _below(nodes, key), (*path, key))
        elif here not in places and _was(item, live[here], names):
            yield (*path, key)
        else:
            continue
        before = here


def _place(item: Mapping[str, Any], live: list[Any], names: set[str]) -> int | None:
    """Where our item stands."""
    match = {name: item[name] for name in names if name in item}
    return next((index for index, present in enumerate(live) if same_item(match, present)), None)


def _was(item: Mapping[str, Any], present: Mapping[str, Any], names: set[str]) -> bool:
    """Whether a foreign item may be ours under another name."""
    rest = {key: value for key, value in item.items() if key not in names}
    return rest.keys() <= present.keys() and (not rest or _alike(rest, present))


def _alike(wanted: Any, live: Any) -> bool:
    """Whether they share a value; the live one has the server's defaults too."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return any(_alike(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return any(_alike(item, present) for item, present in zip(wanted, live, strict=False))
    return bool(wanted == live)


def _below(nodes: Nodes, key: str) -> Nodes:
    return [node[key] for node in nodes if key in node]
