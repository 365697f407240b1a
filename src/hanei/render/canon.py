"""Canonical bytes of a JSON value, and digests of them.

The one place that turns values into bytes for hashing: keys sorted, no spaces, UTF-8, nothing that depends on the
process, the hash seed or the order of insertion (situation S14). Golden files in the tests hold it still.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

DIGEST_LENGTH = 32
"""Hex digits of a digest: 128 bits, enough that a collision never hides a change (situation S73)."""


def canonical(value: Any) -> bytes:
    """`value` as canonical JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: Any, length: int = DIGEST_LENGTH) -> str:
    """SHA-256 of the canonical form, as `length` hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()[:length]


def compact(value: Any) -> Any:
    """`value` without nulls, empty texts' absence aside: None, {} and [] members are left out, at any depth.

    Server-side apply has no use for them, and the server drops most of them anyway. Where emptiness means something
    (`emptyDir: {}`, `podSelector: {}`) the caller wraps it in `KEEP`.
    """
    if isinstance(value, Keep):
        return value.value
    if isinstance(value, dict):
        items = {key: compact(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if not _empty(item) or isinstance(value[key], Keep)}
    if isinstance(value, list | tuple):
        return [compact(item) for item in value]
    return value


class Keep:
    """Marks a value that `compact` must leave as it is, although it is empty."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict | list) and not value)


def merge(base: dict[str, Any], over: Any) -> dict[str, Any]:
    """`base` with `over` laid upon it: maps are merged, lists of named items by name, None removes, the rest replaces."""
    result = dict(base)
    for key, item in over.items():
        present = result.get(key)
        if item is None:
            result.pop(key, None)
        elif isinstance(item, dict):
            result[key] = merge(present if isinstance(present, dict) else {}, item)
        elif _named(item) and _named(present):
            result[key] = _merge_named(present, item)
        else:
            result[key] = item
    return result


def _named(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, dict) and "name" in item for item in value)
    )


def _merge_named(base: Any, over: Any) -> list[Any]:
    result = {item["name"]: item for item in base}
    for item in over:
        result[item["name"]] = merge(result.get(item["name"], {}), item)
    return list(result.values())
