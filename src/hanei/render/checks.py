"""What an author may write and what not, beyond what the typed values check by themselves.

Called by `workload`, `pods` and `files` before anything is built. Each refusal names the field; `fail` adds component
and module. Nothing here changes a value but `json_value`, which returns a copy.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hanei.app.workloads import Deployment, ExistingClaim, Port
from hanei.render import labels

if TYPE_CHECKING:
    from hanei.app.workloads import Workload
    from hanei.errors import RenderError

Fail = Callable[..., "RenderError"]
"""(field, message, hint) → the error, with component and module."""
_EXCLUSIVE = ("ReadWriteOnce", "ReadWriteOncePod")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OWN_KEYS = frozenset((labels.MANAGED_BY, labels.INSTANCE, labels.COMPONENT, labels.CAUSE))
_IDENTITY = ("name", "namespace", "generateName", "uid", "resourceVersion", "ownerReferences", "managedFields")


def check_workload(fail: Fail, value: Workload) -> None:
    """Refuse what cannot work before anything is built."""
    for what, mapping in (("labels", value.labels), ("annotations", value.annotations)):
        check_keys(fail, what, mapping)
    if isinstance(value, Deployment) and _strategy(value) == "RollingUpdate":
        for where, containers in (("containers", value.containers), ("init", value.init)):
            for index, container in enumerate(containers):
                for path, volume in container.volumes.items():
                    if isinstance(volume, ExistingClaim) and volume.access in _EXCLUSIVE:
                        raise fail(
                            f"{where}[{index}].volumes[{path!r}]",
                            f"a {volume.access} claim cannot be held by old and new pods at once",
                            'use strategy="Recreate" or a StatefulSet with claims',
                        )


def check_keys(fail: Fail, field: str, mapping: Any) -> None:
    """Labels or annotations (told by the field's last word): the keys are the author's own, the labels well formed."""
    if not isinstance(mapping, Mapping):
        raise fail(field, f"found {mapping!r}, expected a map")
    of_labels = field.rpartition(".")[2] == "labels"
    for key, item in mapping.items():
        where = f"{field}[{key!r}]"
        if labels.PREFIX in key or key in _OWN_KEYS:
            raise fail(where, "belongs to Hanei", "choose another key")
        if not _LABEL_KEY.fullmatch(key):
            raise fail(where, "is no key of a label or annotation", "such as team, or example.com/team")
        if item is None and field.startswith("overlay"):
            continue  # takes one of the author's own away
        if not isinstance(item, str):
            raise fail(where, f"found {item!r}, expected text")
        if of_labels and not _LABEL_VALUE.fullmatch(item):
            raise fail(
                where,
                f"{item!r} is no value of a label",
                "at most 63 letters, digits, '-', '_', '.'; or use an annotation",
            )
        check_text(fail, where, item)


def check_overlay(fail: Fail, overlay: Mapping[str, Any]) -> None:
    """An overlay reaches any field of the workload but its identity, its selector, and what is Hanei's."""
    for key in overlay:
        if key not in ("metadata", "spec"):
            raise fail(f"overlay.{key}", "may not be overlaid", "only metadata and spec may")
    metadata, spec = _map(fail, overlay, "metadata", "overlay"), _map(fail, overlay, "spec", "overlay")
    template = _map(fail, spec, "template", "overlay.spec")
    inner = _map(fail, template, "metadata", "overlay.spec.template")
    pod = _map(fail, template, "spec", "overlay.spec.template")
    for what in ("containers", "initContainers", "volumes"):
        items = pod.get(what, [])
        if not isinstance(items, list) or not all(isinstance(item, Mapping) and item.get("name") for item in items):
            raise fail(f"overlay.spec.template.spec.{what}", "each item needs a name: it says which one is meant")
    for what in ("strategy", "updateStrategy"):
        kind = _map(fail, spec, what, "overlay.spec").get("type", "RollingUpdate")
        if kind not in ("RollingUpdate", "Recreate", "OnDelete"):
            raise fail(f"overlay.spec.{what}.type", f"found {kind!r}", "RollingUpdate, Recreate or OnDelete")
    replicas = spec.get("replicas")
    if replicas is not None and (isinstance(replicas, bool) or not isinstance(replicas, int)):
        raise fail("overlay.spec.replicas", f"found {replicas!r}, expected a whole number", "or give replicas=")
    if "selector" in spec:
        raise fail("overlay.spec.selector", "may not be overlaid: it is frozen for the life of the workload")
    for where, mapping in (("overlay.metadata", metadata), ("overlay.spec.template.metadata", inner)):
        for field in _IDENTITY:
            if field in mapping:
                raise fail(f"{where}.{field}", "may not be overlaid")
        for what in ("labels", "annotations"):
            if what in mapping:
                check_keys(fail, f"{where}.{what}", mapping[what])


def check_extra(fail: Fail, where: str, body: Mapping[str, Any]) -> None:
    """An extra object says what it is; its owner and Hanei's labels are not the author's to write."""
    metadata = _map(fail, body, "metadata", where)
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str):
            raise fail(f"{where}.{field}", "is missing", "an extra object has apiVersion, kind and metadata.name")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise fail(f"{where}.metadata.name", "is missing", "an extra object has apiVersion, kind and metadata.name")
    for field in _IDENTITY[2:]:
        if field in metadata:
            raise fail(f"{where}.metadata.{field}", "is Hanei's to write")
    for what in ("labels", "annotations"):
        if what in metadata:
            check_keys(fail, f"{where}.metadata.{what}", metadata[what])


def check_ports(fail: Fail, field: str, ports: Iterable[int | Port]) -> None:
    """One port once per protocol, and one name once."""
    seen: set[tuple[int, str]] = set()
    names: set[str] = set()
    for port in ports:
        known = as_port(port)
        if not 1 <= known.number <= 65535:
            raise fail(field, f"{known.number} is no port", "1 to 65535")
        if (known.number, known.protocol) in seen or (known.name and known.name in names):
            raise fail(field, f"port {known.name or known.number} is named twice")
        seen.add((known.number, known.protocol))
        names.add(known.name)


def as_port(port: int | Port) -> Port:
    """A port, written either way."""
    return port if isinstance(port, Port) else Port.model_construct(number=port)


def check_text(fail: Fail, field: str, text: str) -> None:
    """Text is UTF-8; a lone surrogate (half of a character) has no bytes in it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fail(
            field,
            f"character U+{ord(text[error.start]):04X} at position {error.start} is no text",
            "a lone surrogate is half a character; in a file, pass bytes",
        ) from error


def json_value(fail: Fail, field: str, value: Any) -> Any:
    """A copy of what the author gave for an object, as JSON values: None stays, for in an overlay it takes away."""
    if isinstance(value, enum.Enum):
        return json_value(fail, field, value.value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise fail(field, f"the key {key!r} is no text")
        return {str(key): json_value(fail, f"{field}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(fail, f"{field}[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, str):
        check_text(fail, field, value)
        return str(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    raise fail(
        field, f"a {type(value).__name__} cannot stand in an object", "use maps, lists, text, numbers, true and false"
    )


def _strategy(value: Deployment) -> str:
    spec = value.overlay.get("spec")
    over = spec.get("strategy") if isinstance(spec, Mapping) else None
    return str(over.get("type", value.strategy)) if isinstance(over, Mapping) else value.strategy


def _map(fail: Fail, parent: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    found = parent.get(key, {})
    if not isinstance(found, Mapping):
        raise fail(f"{where}.{key}", f"found {found!r}, expected a map")
    return found
