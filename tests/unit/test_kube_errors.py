"""Every answer of the API server as its type."""

from __future__ import annotations

import orjson
import pytest

from hanei.errors import Retryable, Terminal
from hanei.kube import errors


def _answer(code: int, reason: str = "", message: str = "", **details: object) -> errors.KubeError:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return errors.from_response(code, {}, orjson.dumps(body), "get Pod ns/web")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (_answer(400, "BadRequest"), errors.BadRequest, False),
        (_answer(401, "Unauthorized"), errors.Unauthorized, True),
        (_answer(403, "Forbidden"), errors.Forbidden, True),
        (
            _answer(403, "Forbidden", causes=[{"reason": "NamespaceTerminating", "message": "being deleted"}]),
            errors.NamespaceTerminating,
            True,
        ),
        (_answer(404, "NotFound"), errors.NotFound, False),
        (_answer(405, "MethodNotAllowed"), errors.BadRequest, False),
        (_answer(409, "Conflict"), errors.Conflict, True),
        (_answer(409, "AlreadyExists"), errors.AlreadyExists, True),
        (_answer(410, "Expired"), errors.Gone, True),
        (_answer(413, "RequestEntityTooLarge"), errors.TooLarge, False),
        (_answer(415, "UnsupportedMediaType"), errors.BadRequest, False),
        (_answer(422, "Invalid"), errors.Invalid, False),
        (_answer(429, "TooManyRequests"), errors.TooManyRequests, True),
        (_answer(500, "InternalError"), errors.ServerError, True),
        (_answer(500, "", "etcdserver: request is too large"), errors.TooLarge, False),
        (_answer(503, "ServiceUnavailable"), errors.ServerError, True),
        (_answer(504, "Timeout"), errors.RequestTimeout, True),
        (_answer(302), errors.ServerError, True),
    ],
    ids=lambda value: f"{value.status} {value.reason}" if isinstance(value, errors.KubeError) else "",
)
def test_an_answer_has_one_type(error: errors.KubeError, kind: type[errors.KubeError], retryable: bool) -> None:
    """By code, and by the reason where a code has two meanings."""
    assert type(error) is kind
    assert isinstance(error, Retryable if retryable else Terminal)


def test_a_status_gives_message_reason_details_and_wait() -> None:
    """All that the server says is kept."""
    error = _answer(
        422,
        "Invalid",
        'Pod "web" is invalid',
        causes=[{"reason": "FieldValueInvalid", "field": "spec.x", "message": "must be 1"}],
        retryAfterSeconds=3,
    )
    assert str(error) == 'get Pod ns/web: Pod "web" is invalid'
    assert (error.status, error.reason, error.retry_after) == (422, "Invalid", 3)
    assert error.details == (("spec.x", "must be 1"),)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("", None)])
def test_retry_after_is_read_in_seconds_only(header: str, seconds: float | None) -> None:
    """A proxy's date is left out rather than trusted to our clock."""
    assert errors.from_response(503, {"Retry-After": header}, b"", "x").retry_after == seconds


@pytest.mark.parametrize("body", [b"", b"<html>" + b"x" * 10_000, b"\xff\xfe", b"[]", b'{"details": {"causes": null}}'])
def test_an_answer_that_is_no_status_is_still_an_error_of_bounded_length(body: bytes) -> None:
    """A load balancer's page."""
    error = errors.from_response(502, {}, body, "get Pod ns/web")
    assert isinstance(error, errors.ServerError)
    assert len(str(error)) < 400
