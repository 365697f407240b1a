"""What the API server answered when it did not do what was asked, as types.

::

    ApiError                            (hanei.errors)
    └── KubeError                       status, reason, details, retry_after
        ├── Retryable
        │   ├── Unauthorized            401, or no credentials could be had
        │   ├── Forbidden               403: rights are missing, they may be granted later
        │   ├── NamespaceTerminating    403 because the namespace is being deleted
        │   ├── Conflict                409: read again, decide again
        │   │   └── AlreadyExists       409: the name is taken
        │   ├── Gone                    410: the position in a list or watch is too old
        │   ├── TooManyRequests         429
        │   ├── ServerError             5xx
        │   ├── RequestTimeout          504, or no answer in time
        │   └── Disconnected            refused, cut, no such host, a certificate that does not match
        └── Terminal
            ├── NotFound                404
            ├── BadRequest              400 and the other 4xx
            ├── TooLarge                413, or more than etcd takes
            └── Invalid                 422: `details` names the fields

Raised by `hanei.kube.client` only. A message names what was asked and what was answered; it never holds a header or a
request's body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hanei.errors import ApiError, Retryable, Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 300
"""Characters shown of an answer that is not a Status: enough to recognise a proxy's error page."""

_TOO_LARGE = ("request is too large", "message larger than max")
"""etcd's and gRPC's words for an object over the limit, which arrive as a 500."""


class KubeError(ApiError):
    """An answer (or none) of the API server.

    `reason` is the server's machine-readable word ("" without an answer), `details` its causes as (field, message),
    `retry_after` the seconds that it asked to wait, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        details: tuple[tuple[str, str], ...] = (),
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        if status is not None:
            self.status = status
        self.reason = reason
        self.details = details
        self.retry_after = retry_after


class Unauthorized(KubeError, Retryable):
    """The credentials were refused, or none could be had."""

    status = 401


class Forbidden(KubeError, Retryable):
    """These credentials may not do this."""

    status = 403


class NamespaceTerminating(KubeError, Retryable):
    """Nothing can be made in a namespace that is being deleted."""

    status = 403


class NotFound(KubeError, Terminal):
    """No such object, or no such kind."""

    status = 404


class Conflict(KubeError, Retryable):
    """Somebody else wrote in between, or a precondition does not hold."""

    status = 409


class AlreadyExists(Conflict):
    """The name is taken."""


class Gone(KubeError, Retryable):
    """The position in a list or watch is no longer kept: list anew."""

    status = 410


class TooManyRequests(KubeError, Retryable):
    """The server asks to slow down."""

    status = 429


class ServerError(KubeError, Retryable):
    """The server failed."""

    status = 500


class RequestTimeout(KubeError, Retryable):
    """No answer in time; whether the request was carried out is unknown."""


class Disconnected(KubeError, Retryable):
    """No connection, or it was cut; whether the request was carried out is unknown."""


class BadRequest(KubeError, Terminal):
    """The server does not understand the request."""

    status = 400


class TooLarge(KubeError, Terminal):
    """The object is larger than the server takes."""

    status = 413


class Invalid(KubeError, Terminal):
    """The object breaks its schema or the server's rules; `details` names the fields."""

    status = 422


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None
    retryAfterSeconds: float = 0  # noqa: N815 (the API's own word)


class Status(msgspec.Struct):
    """The API server's answer to a request that failed (``kind: Status``)."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_BY_CODE: Mapping[int, type[KubeError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    504: RequestTimeout,
}


def from_response(status: int, headers: Mapping[str, str], body: bytes, request: str) -> KubeError:
    """The typed error of an answer; `request` describes what was asked, for the message."""
    try:
        said = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        said = Status(message=body[:_SHOWN].decode("utf-8", "replace").strip())
    return from_status(said, request, code=status, retry_after=_seconds(headers.get("Retry-After")))


def from_status(said: Status, request: str, *, code: int = 0, retry_after: float | None = None) -> KubeError:
    """The typed error of a Status, also one sent inside a watch (then its own code counts)."""
    code = code or said.code or 500
    details = said.details or _Details()
    causes = details.causes or []
    what = said.message or said.reason or f"HTTP {code}"
    return _kind_of(code, said, causes)(
        f"{request}: {what}",
        status=code,
        reason=said.reason,
        details=tuple((cause.field, cause.message) for cause in causes),
        retry_after=retry_after if retry_after is not None else details.retryAfterSeconds or None,
    )


def _kind_of(code: int, said: Status, causes: list[_Cause]) -> type[KubeError]:
    """Which type stands for this answer."""
    if code == 403 and any(cause.reason == "NamespaceTerminating" for cause in causes):
        return NamespaceTerminating
    if code == 409 and said.reason == "AlreadyExists":
        return AlreadyExists
    if code >= 500 and any(words in said.message for words in _TOO_LARGE):
        return TooLarge
    return _BY_CODE.get(code, ServerError if code >= 500 or code < 400 else BadRequest)


def _seconds(header: str | None) -> float | None:
    """A Retry-After in seconds; the API server never sends the date form, a proxy's is left out."""
    try:
        return float(header) if header else None
    except ValueError:
        return None
