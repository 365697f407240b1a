"""What of an object a cache keeps: functions from the raw JSON that came to the `Cached` that stays.

Chosen by whoever asks for an informer. Metadata is always decoded; of `managedFields` only the entries of the named
managers stay, since the others are most of an object's size. Nothing else is decoded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hanei.kinds import BEFORE_FIRST_APPLY, FIELD_MANAGER
from hanei.runtime.store import Cached, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanei.kinds import Kind

    Transform = Callable[[bytes], Cached]

OURS = frozenset({FIELD_MANAGER, BEFORE_FIRST_APPLY})


class _Object(msgspec.Struct):
    metadata: ObjectMeta


_decode_meta = msgspec.json.Decoder(_Object).decode


def keep_all(kind: Kind, *, managers: frozenset[str] | None = OURS) -> Transform:
    """Keep the whole object; `managers` None keeps every entry of managedFields in the decoded metadata."""

    def transform(raw: bytes) -> Cached:
        return Cached(kind, _trimmed(_decode_meta(raw).metadata, managers), raw)

    return transform


def keep(kind: Kind, *paths: str, managers: frozenset[str] | None = OURS) -> Transform:
    """Keep metadata and the named paths only: ``keep(POD, "status.phase", "spec.nodeName")``.

    `raw` is then a JSON object with just these paths, as far as the object has them.
    """
    decode = msgspec.json.Decoder(_shape(paths, top=True)).decode
    encode = msgspec.json.Encoder().encode

    def transform(raw: bytes) -> Cached:
        found: Any = decode(raw)
        meta = _trimmed(found.metadata, managers)
        for entry in meta.managedFields:
            # A Raw is a window into the message that it came in, and would keep all of that.
            entry.fieldsV1 = entry.fieldsV1.copy()
        found.metadata = msgspec.UNSET
        return Cached(kind, meta, encode(found))

    return transform


def _trimmed(meta: ObjectMeta, managers: frozenset[str] | None) -> ObjectMeta:
    if managers is not None:
        meta.managedFields = [entry for entry in meta.managedFields if entry.manager in managers]
    return meta


def _shape(paths: Iterable[str], *, top: bool = False) -> type[msgspec.Struct]:
    """A struct that decodes just these dotted paths and leaves the leaves undecoded."""
    tree: dict[str, list[str]] = {}
    for path in paths:
        head, _, rest = path.partition(".")
        tree.setdefault(head, []).extend([rest] if rest else [])
    fields: list[tuple[str, Any, Any]] = [
        (f"f{number}", (_shape(below) if below else msgspec.Raw) | msgspec.UnsetType, msgspec.UNSET)
        for number, below in enumerate(tree.values())
    ]
    # Renamed, because a field of Kubernetes may be a word of Python ("from", "continue").
    rename = {f"f{number}": name for number, name in enumerate(tree)}
    if top:
        fields.append(("metadata", ObjectMeta | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct("Kept", fields, rename=rename)
