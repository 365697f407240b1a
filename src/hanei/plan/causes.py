"""Why something happens, in words: the settings, old → new, and who changed them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from hanei.plan.effects import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LIMIT = 400
"""Characters of a cause: it stands in an annotation and in a column of `kubectl rollout history`."""


def value_text(value: Any) -> str:
    """One value for people: JSON, long ones cut."""
    text = "(unset)" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= 60 else text[:57] + "…"


def cause_text(
    settings: Iterable[str], differences: Mapping[str, tuple[Any, Any]], who: str = "", fallback: str = ""
) -> str:
    """`timeout_seq: 300 → 60 (kubectl)`; `fallback` where no setting is known to be the cause."""
    parts = [
        f"{path}: {value_text(differences[path][0])} → {value_text(differences[path][1])}"
        for path in settings
        if path in differences
    ]
    text = ", ".join(parts) or fallback
    if len(text) > LIMIT:
        text = text[: LIMIT - 1] + "…"
    return f"{text} ({who})" if who and text else text


def who_changed(managed_fields: Iterable[Mapping[str, Any]], paths: Iterable[str]) -> str:
    """The manager that last wrote one of these settings, by the resource's managedFields; "" if nobody is known."""
    found: list[tuple[str, str]] = []
    wanted = list(paths)
    for entry in managed_fields:
        if entry.get("subresource"):
            continue
        fields = entry.get("fieldsV1", {}).get("f:spec", {})
        if any(_owns(fields, steps(path)) for path in wanted):
            found.append((str(entry.get("time", "")), str(entry.get("manager", ""))))
    return max(found, default=("", ""))[1]


def _owns(fields: Mapping[str, Any], parts: list[str]) -> bool:
    node: Any = fields
    for part in parts:
        node = node.get(f"f:{part}")
        if node is None:
            return False
        if not node:
            return True
    return True
