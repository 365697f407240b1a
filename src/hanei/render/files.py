"""A container's files: which ConfigMap keys hold them, and how they are mounted.

Called by `pods`. A versioned file lies in the component's slice and is mounted singly by `subPath` (safe: a slice
never changes). A folder with a live file is one projected volume; it belongs to Hanei as a whole.
"""

from __future__ import annotations

import base64
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hanei.app import names
from hanei.app.files import SecretRef
from hanei.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.app.workloads import Container

LIMIT = 1024 * 1024
"""The API server's limit for the data of one ConfigMap, in bytes."""
_KEY_CHARACTER = re.compile(r"[-._a-zA-Z0-9/]")


@dataclass(slots=True)
class Files:
    """The files of one component, gathered over its containers."""

    component: str
    versioned: dict[str, str | bytes] = field(default_factory=dict)
    live: dict[str, str | bytes] = field(default_factory=dict)

    def fail(self, message: str, field_name: str, hint: str = "") -> RenderError:
        """A `RenderError` of this component."""
        return RenderError(
            f"component {self.component}: {field_name}: {message}",
            component=self.component,
            field=field_name,
            hint=hint,
        )

    def add(self, container: str, first: bool, path: str, content: str | bytes, *, live: bool) -> str:
        """Put one file in and give the key that holds it."""
        key = path.strip("/").replace("/", "_")
        key = key if first else f"{container}.{key}"
        store, other = (self.live, self.versioned) if live else (self.versioned, self.live)
        if key in store or key in other or len(key) > 253:
            key = f"{names.digest(f'{container} {path}')}.{key[-200:]}"
        store[key] = content
        return key

    def check_size(self) -> None:
        """Refuse what a ConfigMap cannot hold, before anything is written (situation S66)."""
        for what, store in (("files", self.versioned), ("live_files", self.live)):
            size = sum(len(_bytes(content)) + len(key) for key, content in store.items())
            if size > LIMIT:
                largest = max(store, key=lambda key: len(_bytes(store[key])))
                raise self.fail(
                    f"{size:,} bytes of files do not fit into a ConfigMap of {LIMIT:,} (largest: {largest}, {len(_bytes(store[largest])):,})",
                    what, "split the settings over several components, or keep large content in a volume",
                )  # fmt: skip


def check_path(files: Files, field_name: str, path: str) -> str:
    """`path`, if it can be a file in a container: absolute, plain and free of characters that a key cannot hold."""
    where = f"{field_name}[{path!r}]"
    for position, char in enumerate(path):
        if not _KEY_CHARACTER.fullmatch(char):
            raise files.fail(
                f"character {char!r} (U+{ord(char):04X}) at position {position} cannot stand in a file's path",
                where,
                "use letters, digits, '-', '_', '.' and '/'",
            )
    if not path.startswith("/") or path.endswith("/") or posixpath.normpath(path) != path:
        raise files.fail(
            "is not an absolute path of a file", where, f"write it as {posixpath.normpath('/' + path.strip('/'))!r}"
        )
    return path


def data_of(store: Mapping[str, str | bytes]) -> dict[str, Any]:
    """`data` and `binaryData` of a ConfigMap."""
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, content in store.items():
        if isinstance(content, bytes):
            try:
                text[key] = content.decode()
            except UnicodeDecodeError:
                binary[key] = base64.b64encode(content).decode()
        else:
            text[key] = content
    return {"data": text, "binaryData": binary}


def mounts(
    files: Files, container: Container, name: str, first: bool, volumes: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The volume mounts of a container's files; the volumes that they need are added to `volumes` by name."""
    seen: dict[str, str] = {}
    entries: list[tuple[str, str, Any, str]] = []
    for field_name, mapping in (
        ("files", container.files),
        ("live_files", container.live_files),
        ("secret_files", container.secret_files),
    ):
        for path, content in sorted(mapping.items()):
            check_path(files, field_name, path)
            if path in seen:
                raise files.fail(
                    f"the path is already taken by {seen[path]}", f"{field_name}[{path!r}]", "one path holds one file"
                )
            seen[path] = field_name
            key = (
                ""
                if isinstance(content, SecretRef)
                else files.add(name, first, path, content, live=field_name == "live_files")
            )
            entries.append((field_name, path, content, key))
    # One volume for a whole folder: where a file is live, and where a Secret's key may be absent (a `subPath` of
    # something absent would appear as an empty folder of that name).
    whole = {
        posixpath.dirname(path)
        for field_name, path, content, _ in entries
        if field_name == "live_files" or (isinstance(content, SecretRef) and content.optional)
    }
    folders: dict[str, list[dict[str, Any]]] = {}
    result = []
    for field_name, path, content, key in entries:
        folder = posixpath.dirname(path)
        if folder in whole:
            folders.setdefault(folder, []).append(_source(field_name, path, content, key))
        elif field_name == "files":
            volumes["slice"] = {"name": "slice", "configMap": {"name": SLICE_NAME}}
            result.append({"name": "slice", "mountPath": path, "subPath": key, "readOnly": True})
        else:
            result.append(_secret_mount(path, content, volumes))
    for folder, sources in sorted(folders.items()):
        volume = f"folder-{names.digest(f'{name} {folder}')}"
        volumes[volume] = {"name": volume, "projected": {"sources": _joined(sources)}}
        result.append({"name": volume, "mountPath": folder, "readOnly": True})
    return result


SLICE_NAME = "@slice"
LIVE_NAME = "@live"
"""Placeholders in a template until the hashes are known; `workload` puts the names in."""


def _secret_mount(path: str, ref: SecretRef, volumes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    name = f"secret-{names.digest(f'{ref.name} {ref.optional}')}"
    volume = volumes.setdefault(
        name, {"name": name, "secret": {"secretName": ref.name, "items": [], "optional": ref.optional or None}}
    )
    item = {"key": ref.key, "path": ref.key}
    if item not in volume["secret"]["items"]:
        volume["secret"]["items"] = sorted([*volume["secret"]["items"], item], key=lambda entry: entry["key"])
    return {"name": name, "mountPath": path, "subPath": ref.key, "readOnly": True}


def _source(field_name: str, path: str, content: Any, key: str) -> dict[str, Any]:
    file = posixpath.basename(path)
    if isinstance(content, SecretRef):
        return {
            "secret": {
                "name": content.name,
                "items": [{"key": content.key, "path": file}],
                "optional": content.optional or None,
            }
        }
    return {
        "configMap": {
            "name": LIVE_NAME if field_name == "live_files" else SLICE_NAME,
            "items": [{"key": key, "path": file}],
        }
    }


def _joined(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: dict[str, dict[str, Any]] = {}
    for source in sources:
        kind, body = next(iter(source.items()))
        place = joined.setdefault(f"{kind} {body['name']} {body.get('optional')}", {kind: {**body, "items": []}})
        place[kind]["items"] += body["items"]
    return [joined[key] for key in sorted(joined)]


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
