"""Does our own managedFields entry still cover what we want? The one test for drift.

The server keeps, for each manager, the set of paths that it owns ("FieldsV1"). Whoever changes or removes a value of
ours takes its path out of our entry; a rewrite by the server itself does not. The entry's own keys say how list items
match: `k:{…}` by the named fields, `v:…` by value, an empty node is a leaf or an atomic whole. So no table of merge
keys, defaults or quantities is needed. Source: the documentation of server-side apply and structured-merge-diff.

An entry can also have a shadow: another one, of the server's or our own making, that owns our fields beside it. What
two managers own stays when one gives it up, so a setting that removes something would remove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from hanei.kinds import BEFORE_FIRST_APPLY, FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_IDENTITY = frozenset(("apiVersion", "kind"))
_UNTRACKED = frozenset(("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"))


def uncovered(entry: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> list[str]:
    """Dotted paths of `wanted` that our entry no longer owns; all is missing where there is no entry."""
    if entry is None:
        return ["(everything)"]
    found: list[str] = []
    for key, value in wanted.items():
        if key in _IDENTITY:
            continue
        if key == "metadata":
            value = {name: item for name, item in value.items() if name not in _UNTRACKED}
        found += _child(entry, key, value, key)
    return found


def _child(entry: Mapping[str, Any], key: str, value: Any, path: str) -> Iterator[str]:
    node = entry.get(f"f:{key}")
    if node is None:
        if isinstance(value, list):
            yield from (f"{path}[{_title(item)}]" for item in value)  # an empty list is not tracked
        else:
            yield path
    else:
        yield from _walk(node, value, path)


def _walk(node: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if not node:
        return  # a leaf, or a whole that the server treats as one
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _child(node, key, item, f"{path}.{key}")
    elif isinstance(value, list):
        keys = [(orjson.loads(key[2:]), inner) for key, inner in node.items() if key.startswith("k:")]
        values = {key[2:] for key in node if key.startswith("v:")}
        for item in value:
            if isinstance(item, dict):
                inner = next((inner for match, inner in keys if same_item(match, item)), None)
                if inner is None:
                    yield f"{path}[{_title(item)}]"
                else:
                    yield from _walk(inner, item, f"{path}[{item.get('name', '')}]")
            elif orjson.dumps(item).decode() not in values:
                yield f"{path}[{item}]"


def _title(item: Any) -> Any:
    return item.get("name", item) if isinstance(item, dict) else item


def same_item(match: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether a list item is the one that an entry's key names; a key field that we leave out was defaulted."""
    return all(key not in item or item[key] == value for key, value in match.items())


def lost_items(paths: Iterable[str]) -> bool:
    """Whether a list item is among the paths that `uncovered` found."""
    return any(path.endswith("]") for path in paths)


def is_shadow(manager: str, operation: str, subresource: str) -> bool:
    """Whether an entry shadows ours: left by the server before our first apply, or by a patch of ours (an adoption)."""
    return not subresource and operation == "Update" and manager in (BEFORE_FIRST_APPLY, FIELD_MANAGER)
