"""The API server as Hanei uses it: get, list in pages, watch, apply, create, patch, delete.

Used by informers, the operator's writes, the Lease and the CLI; the only way to the API server. Objects go in as maps
and come out as raw JSON bytes: who needs a field decodes it. Nothing is retried here but a request refused with 401
(see `hanei.kube.transport`); callers back off, honouring `retry_after`. Every failure is a type of `hanei.kube.errors`.
"""

from __future__ import annotations

import contextlib
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import msgspec
import orjson

from hanei.errors import WrongUse
from hanei.kinds import FIELD_MANAGER
from hanei.kube.errors import Disconnected, Status, from_status
from hanei.kube.transport import Call, Transport
from hanei.observe.metrics import Metrics
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from types import TracebackType

    from hanei.kinds import Kind
    from hanei.kube.config import Connection

USER_AGENT = f"hanei/{version('hanei')}"

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_LONGEST_LINE = 32 * 1024 * 1024
"""A watch line longer than this is no object of Kubernetes (etcd takes 1.5 MB): stop before memory is gone."""

_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_VERBS = {APPLY_PATCH: "apply", MERGE_PATCH: "patch", JSON_PATCH: "patch"}


class Page(msgspec.Struct, frozen=True):
    """One page of a list: raw items, the list's resourceVersion, and how many items are still to come if known."""

    items: list[bytes]
    resource_version: str
    remaining: int = 0


class WatchEvent(msgspec.Struct, frozen=True):
    """One event: ADDED, MODIFIED, DELETED or BOOKMARK, and the raw object."""

    type: str
    object: bytes


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "more": "continue"}):
    resource_version: str = ""
    more: str = ""
    remainingItemCount: int = 0  # noqa: N815 (the API's own word)


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_list = msgspec.json.Decoder(_List).decode
_decode_line = msgspec.json.Decoder(_Line).decode


class Client:
    """One API server. An async context manager, to be used in the loop that entered it."""

    def __init__(
        self,
        connection: Connection,
        settings: OperatorSettings | None = None,
        user_agent: str = USER_AGENT,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self.connection = connection
        self.settings = settings or OperatorSettings()
        self.metrics = metrics or Metrics()
        self._user_agent = user_agent

    async def __aenter__(self) -> Self:
        self._transport = Transport(self.connection, self.settings, self.metrics, self._user_agent)
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (bounds one request on the wire, not the caller's scope)
    ) -> bytes:
        """Any request; `path` is quoted already. The body of the answer, or a typed error."""
        return await self._send(f"{method} {path}", method, path, params or {}, body, content_type, timeout)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes:
        """One object as it is now. Raises NotFound."""
        return await self._send(f"get {kind.describe(namespace, name)}", "GET", kind.path(namespace, name), {})

    async def list_pages(
        self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "", limit: int = 500
    ) -> AsyncGenerator[Page, None]:
        """All objects, page by page (`limit` 0: all in one). Raises Gone when the position is lost in between: what
        was read so far is then no snapshot, and the caller starts again.
        """
        what, path = f"list {kind.describe(namespace)}", kind.path(namespace)
        params = {**_selectors(labels, fields), **({"limit": str(limit)} if limit else {})}
        while True:
            body = await self._send(what, "GET", path, params, verb="list")
            try:
                page = _decode_list(body)
            except msgspec.MsgspecError as error:
                raise Disconnected(f"{what}: the answer is no list: {error}") from error
            meta = page.metadata
            yield Page([bytes(item) for item in page.items or ()], meta.resource_version, meta.remainingItemCount)
            if not meta.more:
                return
            params["continue"] = meta.more

    async def watch(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout: float,  # noqa: ASYNC109 (asked of the server, which ends the watch by itself)
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, until the server ends the watch after about `timeout` seconds.

        Raises Gone (the position is too old) or another typed error, also when it comes inside the stream;
        Disconnected or RequestTimeout when the connection breaks or says nothing for too long. Close it with
        `contextlib.aclosing`.
        """
        what = f"watch {kind.describe(namespace)}"
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout))),
            **_selectors(labels, fields),
        }
        call = Call("watch", what, "GET", _target(kind.path(namespace), params))
        # A server sends bookmarks for a kind without changes too, each minute (measured on 1.37); of one that does not,
        # the watch is opened anew where it stood, which lists nothing.
        async with contextlib.aclosing(self._transport.stream(call, self.settings.watch_silence)) as pieces:
            async for event in _events(pieces, what):
                yield event

    async def apply(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        subresource: str = "",
        field_validation: str = "Strict",
    ) -> bytes:
        """Server-side apply; the object as it is afterwards.

        A `metadata.resourceVersion` of "1" creates only (Conflict if it is there); a `metadata.uid` changes only that
        object (Conflict if it is gone, Invalid or Conflict if another has its name).
        """
        params = {"fieldManager": field_manager, "fieldValidation": field_validation, **_dry(dry_run)}
        if force:
            params["force"] = "true"
        return await self._send(
            f"apply {kind.describe(namespace, name)}",
            "PATCH",
            kind.path(namespace, name, subresource),
            params,
            _for_yaml(orjson.dumps(body)),
            APPLY_PATCH,
        )

    async def create(
        self, kind: Kind, namespace: str | None, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> bytes:
        """Create; the object as it is afterwards. Raises AlreadyExists."""
        name = str(body.get("metadata", {}).get("name", ""))
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **_dry(dry_run)}
        what = f"create {kind.describe(namespace, name)}"
        return await self._send(what, "POST", kind.path(namespace), params, orjson.dumps(body))

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        """Replace the whole object; with `metadata.resourceVersion` only that very version (else Conflict)."""
        what = f"replace {kind.describe(namespace, name)}"
        params = {"fieldManager": FIELD_MANAGER}
        return await self._send(what, "PUT", kind.path(namespace, name), params, orjson.dumps(body))

    async def merge_patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        dry_run: bool = False,
        subresource: str = "",
    ) -> bytes:
        """JSON merge patch (RFC 7386); the object as it is afterwards."""
        what, path = f"patch {kind.describe(namespace, name)}", kind.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER, **_dry(dry_run)}
        return await self._send(what, "PATCH", path, params, orjson.dumps(patch), MERGE_PATCH)

    async def json_patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        subresource: str = "",
    ) -> bytes:
        """JSON patch (RFC 6902), with `test` operations as preconditions; the object as it is afterwards."""
        what, path = f"patch {kind.describe(namespace, name)}", kind.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER, **_dry(dry_run)}
        return await self._send(what, "PATCH", path, params, orjson.dumps(patch), JSON_PATCH)

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> bytes:
        """Delete, only this uid and version if given (else Conflict). Raises NotFound."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {key: value for key, value in wanted.items() if value is not None},
        }
        what = f"delete {kind.describe(namespace, name)}"
        return await self._send(what, "DELETE", kind.path(namespace, name), {}, orjson.dumps(options))

    async def post_raw(self, path: str, body: Mapping[str, Any]) -> bytes:
        """POST to any path: TokenRequest, SubjectAccessReview and other virtual kinds."""
        return await self._send(f"POST {path}", "POST", path, {}, orjson.dumps(body))

    async def discover(self, path: str) -> bytes:
        """A document of the server itself, such as ``/openapi/v3``; `path` may carry a query."""
        return await self._send(f"GET {path}", "GET", path, {})

    async def version(self) -> str:
        """The server's version, as ``v1.37.2``."""
        found: str = orjson.loads(await self.discover("/version"))["gitVersion"]
        return found

    async def _send(
        self,
        what: str,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: bytes | None = None,
        content_type: str | None = None,
        limit: float | None = None,
        verb: str = "",
    ) -> bytes:
        if not path.startswith("/"):
            raise WrongUse(f"{path!r} is no path of the API server", hint="It starts with /.")
        kind = content_type or "application/json"
        call = Call(verb or _VERBS.get(kind, method.lower()), what, method, _target(path, params), body, kind)
        return await self._transport.send(call, limit or self.settings.request_timeout)


async def _events(pieces: AsyncGenerator[bytes, None], what: str) -> AsyncGenerator[WatchEvent, None]:
    """The events in a stream of pieces, which are cut anywhere."""
    parts: list[bytes] = []
    held = 0
    async for piece in pieces:
        head, *rest = piece.split(b"\n")
        parts.append(head)
        held += len(head)
        for following in rest:
            if held:
                yield _event(b"".join(parts), what)
            parts, held = [following], len(following)
        if held > _LONGEST_LINE:
            raise Disconnected(f"{what}: a line of more than {_LONGEST_LINE} bytes")
    if held:
        raise Disconnected(f"{what}: the stream ended in the middle of an event")


def _event(line: bytes, what: str) -> WatchEvent:
    try:
        decoded = _decode_line(line)
        if decoded.type == "ERROR":
            raise from_status(msgspec.json.decode(decoded.object, type=Status), what)
    except msgspec.MsgspecError as error:
        raise Disconnected(f"{what}: not an event: {error}") from error
    return WatchEvent(decoded.type, bytes(decoded.object))


def _target(path: str, params: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


def _for_yaml(body: bytes) -> bytes:
    """JSON that a YAML reader takes byte for byte: the server reads the body of an apply as YAML, which folds some line
    separators into spaces and refuses control characters, unless they are written as escapes."""
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found.group()):04x}", body.decode()).encode()


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
