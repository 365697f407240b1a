"""Reading and merging kubeconfig files, so that every complaint names file and field.

Used by `hanei.kube.config` only. The rules are kubectl's: of several files the first one to set a value wins, and
relative paths start at the file that holds them. What the values mean is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hanei.errors import ConfigError

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""The lists of a kubeconfig, and the word under which each item holds its content."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A map inside one file; `at` is its path there, as ``users[me]``."""

    file: Path
    at: str
    content: dict[str, Any]

    def where(self, name: str) -> str:
        """File and field, for messages."""
        return f"{self.file}: {self.at}.{name}" if self.at else f"{self.file}: {name}"

    def value(self, name: str) -> Any:
        return self.content.get(name)

    def text(self, name: str, *, required: bool = False) -> str:
        """A string, "" when absent."""
        value = self.content.get(name)
        if value is None or value == "":
            if required:
                raise ConfigError(f"{self.where(name)}: missing")
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.where(name)}: a text is needed, found {type(value).__name__}")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings, empty when absent."""
        value = self.content.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{self.where(name)}: a list of texts is needed")
        return value

    def flag(self, name: str) -> bool:
        value = self.content.get(name) or False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where(name)}: true or false is needed, found {value!r}")
        return value

    def path(self, text: str) -> Path:
        """A path as this file means it."""
        return self.file.parent / Path(text).expanduser()

    def child(self, name: str) -> Entry:
        value = self.content.get(name) or {}
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where(name)}: a map is needed, found {type(value).__name__}")
        return Entry(self.file, f"{self.at}.{name}", value)

    def children(self, name: str) -> list[Entry]:
        value = self.content.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise ConfigError(f"{self.where(name)}: a list of maps is needed")
        return [Entry(self.file, f"{self.at}.{name}[{number}]", item) for number, item in enumerate(value)]


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Several files as one."""

    paths: tuple[Path, ...]
    current_context: str
    sections: dict[str, dict[str, Entry]]

    @property
    def source(self) -> str:
        return ", ".join(map(str, self.paths))

    def choices(self, section: str) -> str:
        return ", ".join(self.sections[section]) or "none is defined"

    def entry(self, section: str, name: str, *, wanted_by: str) -> Entry:
        """The named item; `wanted_by` is the field or option that asked for it."""
        found = self.sections[section].get(name)
        if found is None:
            raise ConfigError(
                f"{self.source}: {wanted_by} names {name!r}, which is not in {section}",
                hint=f"There are: {self.choices(section)}.",
            )
        return found


def merged(paths: list[Path], *, must_exist: bool) -> Kubeconfig:
    """All files as one; missing ones are passed over unless they must exist, but one has to be there."""
    files = [(path, _read(path)) for path in paths if must_exist or path.exists()]
    if not files:
        raise ConfigError(f"None of the files in $KUBECONFIG exists: {', '.join(map(str, paths))}")
    sections: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}
    current = ""
    for path, content in files:
        current = current or Entry(path, "", content).text("current-context")
        for section in _SECTIONS:
            for name, entry in _items(path, content, section):
                sections[section].setdefault(name, entry)
    return Kubeconfig(tuple(path for path, _ in files), current, sections)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a kubeconfig is a map, found {type(content).__name__}")
    return content


def _items(path: Path, content: dict[str, Any], section: str) -> list[tuple[str, Entry]]:
    word = _SECTIONS[section]
    listed = Entry(path, "", content).children(section)
    named = [(item.text("name", required=True), item.child(word).content) for item in listed]
    return [(name, Entry(path, f"{section}[{name}].{word}", inner)) for name, inner in named]
