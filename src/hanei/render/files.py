"""A container's files: which ConfigMap keys hold them, and how they are mounted.

Called by `pods`. A versioned file lies in the component's slice and is mounted singly by `subPath` (safe: a slice
never changes). A folder with a live file is one projected volume, with everything below it: it belongs to Hanei as a
whole, and nothing can be mounted into it, for it is read-only.
"""

from __future__ import annotations

import base64
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hanei.app import names
from hanei.app.files import SecretRef
from hanei.render.checks import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanei.app.workloads import Container
    from hanei.render.checks import Fail

LIMIT = 1024 * 1024
"""The API server's limit for the data of one ConfigMap, in bytes."""
_KEY_CHARACTER = re.compile(r"[-._a-zA-Z0-9/]")
_SYSTEM = frozenset(("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"))
"""Folders that no container can do without: a volume over one of them hides what the image has there."""


@dataclass(slots=True)
class Files:
    """The files of one component, gathered over its containers. `fail(field, message, hint)` makes its errors."""

    fail: Fail
    versioned: dict[str, str | bytes] = field(default_factory=dict)
    live: dict[str, str | bytes] = field(default_factory=dict)

    def add(self, container: str, first: bool, path: str, content: str | bytes, *, live: bool) -> str:
        """Put one file in and give the key that holds it."""
        key = path.strip("/").replace("/", "_")
        key = key if first else f"{container}.{key}"
        store, other = (self.live, self.versioned) if live else (self.versioned, self.live)
        if key in store or key in other or len(key) > 253 or key.startswith(".."):
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
                    what, f"{size:,} bytes of files do not fit into a ConfigMap of {LIMIT:,} (largest: {largest}, {len(_bytes(store[largest])):,})",
                    "split the settings over several components, or keep large content in a volume",
                )  # fmt: skip


def check_path(files: Files, field_name: str, path: str) -> str:
    """`path`, if it can be a file in a container: absolute, plain and free of characters that a key cannot hold."""
    where = f"{field_name}[{path!r}]"
    for position, char in enumerate(path):
        if not _KEY_CHARACTER.fullmatch(char):
            raise files.fail(
                where,
                f"character {char!r} (U+{ord(char):04X}) at position {position} cannot stand in a file's path",
                "use letters, digits, '-', '_', '.' and '/'",
            )
    # `normpath` leaves two slashes at the beginning alone: POSIX lets them mean something, here they are a slip.
    if not path.startswith("/") or path.endswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise files.fail(
            where, "is not an absolute path of a file", f"write it as {posixpath.normpath('/' + path.strip('/'))!r}"
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
    entries = _entries(files, container, name, first)
    folders = _live_folders(files, entries)
    sources: dict[str, list[dict[str, Any]]] = {}
    result = []
    for entry in entries:
        folder = next((one for one in folders if entry.path.startswith(f"{one}/")), None)
        if folder is not None:
            sources.setdefault(folder, []).append(_source(entry, folder))
        elif isinstance(entry.content, SecretRef):
            result.append(_secret_mount(entry.path, entry.content, volumes))
        else:
            volumes["slice"] = {"name": "slice", "configMap": {"name": SLICE_NAME}}
            result.append({"name": "slice", "mountPath": entry.path, "subPath": entry.key, "readOnly": True})
    for folder in folders:
        volume = f"folder-{names.digest(f'{name} {folder}')}"
        volumes[volume] = {"name": volume, "projected": {"sources": _joined(sources[folder])}}
        result.append({"name": volume, "mountPath": folder, "readOnly": True})
    return result


def check_nesting(files: Files, field_name: str, mounted: Iterable[Mapping[str, Any]]) -> None:
    """Refuse two mounts of one path, a file that is also a folder, and a mount inside a folder of Hanei's."""
    closed: dict[str, str] = {}
    for mount in sorted(mounted, key=lambda item: str(item["mountPath"])):
        path = str(mount["mountPath"])
        for outer, what in closed.items():
            if path == outer:
                raise files.fail(field_name, f"{path!r} is mounted twice", "one path holds one thing")
            if what and path.startswith(f"{outer}/"):
                raise files.fail(
                    field_name, f"{path!r} lies in {outer!r}, {what}", "choose another folder for one of them"
                )
        closed[path] = "a file" if "subPath" in mount else "a folder of live files" if mount.get("readOnly") else ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of a container: which field names it, where it is, what it holds, and the ConfigMap key that carries it."""

    field_name: str
    path: str
    content: str | bytes | SecretRef
    key: str = ""


def _entries(files: Files, container: Container, name: str, first: bool) -> list[_Entry]:
    seen: dict[str, str] = {}
    entries = []
    fields = {"files": container.files, "live_files": container.live_files, "secret_files": container.secret_files}
    for field_name, mapping in fields.items():
        for path, content in sorted(mapping.items()):
            check_path(files, field_name, path)
            if path in seen:
                raise files.fail(
                    f"{field_name}[{path!r}]", f"the path is already taken by {seen[path]}", "one path holds one file"
                )
            seen[path] = field_name
            if isinstance(content, SecretRef):
                entries.append(_Entry(field_name, path, content))
                continue
            if isinstance(content, str):
                check_text(files.fail, f"{field_name}[{path!r}]", content)
            key = files.add(name, first, path, content, live=field_name == "live_files")
            entries.append(_Entry(field_name, path, content, key))
    for path in seen:
        folder = next((other for other in seen if path.startswith(f"{other}/")), None)
        if folder is not None:
            raise files.fail(f"{seen[path]}[{path!r}]", f"{folder!r} is a file, not a folder", "rename one of them")
    return entries


def _live_folders(files: Files, entries: Iterable[_Entry]) -> list[str]:
    """The outermost folders that are one volume each: where a file is live, and where a Secret's key may be absent (a
    `subPath` of something absent would appear as an empty folder of that name)."""
    found: list[str] = []
    wanting = {
        posixpath.dirname(entry.path): entry
        for entry in entries
        if entry.field_name == "live_files" or (isinstance(entry.content, SecretRef) and entry.content.optional)
    }
    for folder, entry in sorted(wanting.items()):
        if folder in _SYSTEM:
            raise files.fail(
                f"{entry.field_name}[{entry.path!r}]",
                f"the whole folder {folder!r} of the container would be hidden by it",
                "give such files a folder of their own",
            )
        if not any(folder.startswith(f"{outer}/") for outer in found):
            found.append(folder)
    return found


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


def _source(entry: _Entry, folder: str) -> dict[str, Any]:
    file = posixpath.relpath(entry.path, folder)
    if isinstance(entry.content, SecretRef):
        ref = entry.content
        return {
            "secret": {"name": ref.name, "items": [{"key": ref.key, "path": file}], "optional": ref.optional or None}
        }
    carrier = LIVE_NAME if entry.field_name == "live_files" else SLICE_NAME
    return {"configMap": {"name": carrier, "items": [{"key": entry.key, "path": file}]}}


def _joined(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: dict[str, dict[str, Any]] = {}
    for source in sources:
        kind, body = next(iter(source.items()))
        place = joined.setdefault(f"{kind} {body['name']} {body.get('optional')}", {kind: {**body, "items": []}})
        place[kind]["items"] += body["items"]
    return [joined[key] for key in sorted(joined)]


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
