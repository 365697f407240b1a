"""Rendered files and references to Secrets: what a container's `files`, `env` and `secret_files` hold.

One documented text form per type: `true`/`false`, digits, UTF-8 kept as it is; keys are sorted, so that one value has
one rendering in every process (situations S14, S62, S63, S65).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
import pydantic_core

from hanei.errors import AppError


class SecretRef(pydantic.BaseModel):
    """One key of a Secret in the resource's namespace: a reference, never the value."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    name: str = pydantic.Field(min_length=1)
    key: str = pydantic.Field(min_length=1, pattern=r"^[-._a-zA-Z0-9]+$")
    optional: bool = False


class FieldRef(pydantic.BaseModel):
    """A fact about the pod itself, by the downward API: `FieldRef(path="metadata.name")`."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    path: str = pydantic.Field(min_length=1)


def secret(name: str, key: str, *, optional: bool = False) -> SecretRef:
    """Refer to one key of a Secret. The value is never read by a component, only handed to the container."""
    return SecretRef(name=name, key=key, optional=optional)


def plain(value: Any) -> Any:
    """`value` as JSON values: models dumped by alias and without nulls, sets sorted, every type in its one text form."""
    if isinstance(value, pydantic.BaseModel):
        # Not mode="json": that would write a set in the order of its hashes, another one in each process.
        return plain(value.model_dump(by_alias=True, exclude_none=True))
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key if type(key) is str else _key(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return _text_of(value)


def _key(key: Any) -> str:
    found = plain(key)
    return found if isinstance(found, str) else scalar(found)


def _text_of(value: Any) -> str:
    """A date, an address, a UUID, … as pydantic writes it; raises `AppError` for what has no text of its own."""
    problem = f"a {type(value).__name__} cannot be written to a file"
    try:
        found = None if isinstance(value, bytes | bytearray) else pydantic_core.to_jsonable_python(value)
    except pydantic_core.PydanticSerializationError as error:
        raise AppError(problem, hint="turn it into text or a number first") from error
    if not isinstance(found, str):
        raise AppError(problem, hint="turn it into text or a number first")
    return found


def scalar(value: Any) -> str:
    """The one text form of a value: `true`/`false`, digits, text as it is; raises `AppError` for anything with parts."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value, allow_nan=False)
    raise AppError(f"{value!r} has no form on one line", hint="use as_json or as_yaml for values with parts")


def as_json(value: Any) -> str:
    """`value` as JSON: keys sorted, two spaces, UTF-8 as it is, a newline at the end."""
    return json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def as_yaml(value: Any) -> str:
    """`value` as YAML: keys sorted, block style, UTF-8 as it is."""
    import yaml

    text: str = yaml.safe_dump(
        plain(value), sort_keys=True, allow_unicode=True, default_flow_style=False, width=1_000_000
    )
    return text


def as_env(value: Mapping[str, Any] | pydantic.BaseModel) -> str:
    """`value` as `KEY=text` lines, keys sorted. A text with anything but plain characters is quoted for a shell."""
    lines = []
    for key, item in sorted(plain(value).items()):
        text = scalar(item)
        if any(char in text for char in "\n\r\0"):
            raise AppError(f"{key}: a line break cannot stand in an env file")
        quoted = (
            text
            if text and all(char.isalnum() or char in "-_./:@%+," for char in text)
            else "'" + text.replace("'", "'\\''") + "'"
        )
        lines.append(f"{key}={quoted}\n")
    return "".join(lines)


def as_ini(value: Mapping[str, Mapping[str, Any]] | pydantic.BaseModel) -> str:
    """`value` as sections of `key = text` lines, sections and keys sorted."""
    lines: list[str] = []
    for section, items in sorted(plain(value).items()):
        if not isinstance(items, Mapping):
            raise AppError(f"{section}: an INI file is made of sections", hint='use {"section": {"key": value}}')
        lines += [f"[{section}]\n", *(f"{key} = {_line(key, item)}\n" for key, item in sorted(items.items())), "\n"]
    return "".join(lines)


def _line(key: str, value: Any) -> str:
    text = (
        ",".join(scalar(item) for item in value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else scalar(value)
    )
    if any(char in text for char in "\n\r\0"):
        raise AppError(f"{key}: a line break cannot stand in an INI value")
    return text
