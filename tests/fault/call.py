"""What a request is about, read from its method, path and query: verb, resource, namespace, name, watch. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_UNCOUNTED = frozenset(("leases", "events"))
"""Writes that come when they like: the Lease by the clock, events by what was out of the ordinary."""


@dataclass(frozen=True, slots=True)
class Call:
    """`verb` is Kubernetes' own; of a path that is no resource (`/healthz`) it is `get` and `resource` is the path."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    dry_run: bool = False

    @property
    def counted(self) -> bool:
        """Whether it is one of the numbered writes."""
        return (
            self.verb in ("create", "update", "patch", "delete")
            and not self.dry_run
            and self.resource not in _UNCOUNTED
        )

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name, self.subresource) if part)
        return f"{self.verb} {self.resource} {place}".rstrip()


def call_of(method: str, path: str, query: Mapping[str, str]) -> Call:
    """Read a request line."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Call("get", path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if method == "GET":
        verb = "watch" if query.get("watch") in ("true", "1") else "get" if name else "list"
    else:
        verb = _VERBS.get(method, method.lower())
    return Call(verb, resource, group, namespace, name, subresource, bool(query.get("dryRun")))
