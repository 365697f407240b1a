"""Which values of ours did admission change? A field that is ours and holds another value: reported, not fought.

Admission (a webhook, a policy) changes an object after the server has noted who owns what, so `hanei.plan.ownership`
sees nothing, and must not: putting the value back would be changed again, for ever. The answer to an apply says it once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hanei.app.types import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AMOUNT = re.compile(Quantity.form).fullmatch


def altered(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Paths of `wanted` that `stored` holds otherwise; the server's own rewriting (`1000m` to `1`) is not counted."""
    body = {key: value for key, value in wanted.items() if key not in ("metadata", "kind", "apiVersion")}
    return list(dict.fromkeys(_walk(body, stored, "")))


def _walk(wanted: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(stored, dict):
        for key, value in wanted.items():
            yield from _walk(value, stored.get(key), f"{path}.{key}" if path else key)
    elif isinstance(wanted, list) and isinstance(stored, list) and wanted and isinstance(wanted[0], dict):
        yield from _items(wanted, stored, path)
    elif not _same(wanted, stored):
        yield path


def _items(wanted: list[dict[str, Any]], stored: list[dict[str, Any]], path: str) -> Iterator[str]:
    """Admission may have put others between ours, so each of ours is looked for; a name says where it went wrong."""
    for item in wanted:
        if any(_same(item, one) for one in stored):
            continue
        name = item.get("name")
        present = next((one for one in stored if name and one.get("name") == name), None)
        if present is not None:
            yield from _walk(item, present, f"{path}[{name}]")
        else:
            yield path


def _same(wanted: Any, stored: Any) -> bool:
    if wanted == stored or (not wanted and not stored):
        return True
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return all(_same(value, stored.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(stored, list):
        return len(wanted) == len(stored) and all(map(_same, wanted, stored))
    one, other = str(wanted), str(stored)
    return one == other or bool(_AMOUNT(one) and _AMOUNT(other) and Quantity(one).number == Quantity(other).number)
