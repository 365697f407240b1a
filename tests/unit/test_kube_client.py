"""The client against a server that answers badly, late, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from hanei import kinds
from hanei.errors import WrongUse
from hanei.kube import errors
from hanei.kube.client import Client, WatchEvent
from hanei.kube.config import Connection, Login
from tests.unit.kube_wire import QUICK, cut, status, stream, wire

if TYPE_CHECKING:
    from hanei.kube.client import Page


async def _pages(client: Client, **how: Any) -> list[Page]:
    return [page async for page in client.list_pages(kinds.POD, "ns", **how)]


async def _watch(client: Client, timeout: float = 5) -> list[WatchEvent]:  # noqa: ASYNC109
    seen: list[WatchEvent] = []
    async with aclosing(client.watch(kinds.POD, "ns", resource_version="7", timeout=timeout)) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 (what was seen before an error must not be lost)
    return seen


def _line(kind: str, /, **content: object) -> bytes:
    return orjson.dumps({"type": kind, "object": content}) + b"\n"


# Requests


async def test_a_list_follows_continue_and_carries_its_selectors() -> None:
    """Pages come one by one; every request repeats the selectors and the limit."""
    asked: list[dict[str, str]] = []

    async def server(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        more = {"": "one", "one": "two", "two": ""}[request.query.get("continue", "")]
        return web.json_response({"metadata": {"resourceVersion": "9", "continue": more}, "items": [{"page": more}]})

    async with wire(server) as up, up.client() as client:
        pages = await _pages(client, labels="app=x", fields="metadata.name=y", limit=1)
    assert [page.items for page in pages] == [[b'{"page": "one"}'], [b'{"page": "two"}'], [b'{"page": ""}']]
    base = {"labelSelector": "app=x", "fieldSelector": "metadata.name=y", "limit": "1"}
    assert asked == [base, base | {"continue": "one"}, base | {"continue": "two"}]


@pytest.mark.parametrize("items", [None, []])
async def test_an_empty_list_is_one_page_without_items(items: list[object] | None) -> None:
    """Go writes an empty list as null or []."""

    async def server(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    async with wire(server) as up, up.client() as client:
        assert [page.items for page in await _pages(client)] == [[]]


@pytest.mark.parametrize("length", [None, 1000])
async def test_s07_a_list_cut_in_the_middle_is_an_error_and_no_shorter_list(length: int | None) -> None:
    """With a length and without (chunked), what came before the cut is not handed out."""

    async def server(request: web.Request) -> web.StreamResponse:
        return await cut(request, b'{"metadata":{},"items":[{"a":1},', length=length)

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Disconnected):
            await _pages(client)


async def test_an_answer_that_is_no_list_is_retryable() -> None:
    """A captive portal's page is not an empty list."""

    async def server(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Log in</html>")

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Disconnected, match="no list"):
            await _pages(client)


async def test_nobody_listening_is_disconnected_with_the_source_of_the_address() -> None:
    """The message helps a person who typed the wrong context."""
    async with Client(Connection("http://127.0.0.1:1", source="file config, context test"), QUICK) as client:
        with pytest.raises(errors.Disconnected, match="context test") as caught:
            await client.get(kinds.POD, "ns", "web")
    assert caught.value.status == 0


async def test_a_server_that_does_not_answer_is_a_timeout() -> None:
    """The client's own time-out, not the operating system's."""

    async def server(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with wire(server) as up, up.client(settings=replace(QUICK, request_timeout=0.05)) as client:
        with pytest.raises(errors.RequestTimeout):
            await client.get(kinds.POD, "ns", "web")
        with pytest.raises(errors.RequestTimeout):
            await client.request("GET", "/x", timeout=0.05)


async def test_a_429_says_how_long_to_wait_and_is_not_retried_by_itself() -> None:
    """Callers decide when to try again."""

    async def server(_: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=429, headers={"Retry-After": "7"})

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(kinds.POD, "ns", "web")
        assert len(up.seen) == 1
    assert caught.value.retry_after == 7


async def test_a_redirect_is_not_followed() -> None:
    """It would carry the token to another host."""

    async def server(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    async with wire(server) as up, up.client(Login(token="hunter2")) as client:
        with pytest.raises(errors.ServerError):
            await client.get(kinds.POD, "ns", "web")
        assert len(up.seen) == 1


async def test_no_message_holds_a_credential_or_a_body() -> None:
    """Whatever fails, the error may be logged."""

    async def server(_: web.Request) -> web.StreamResponse:
        return status(422, "Invalid", "spec.x: wrong", causes=[{"field": "spec.x", "message": "wrong"}])

    async with wire(server) as up, up.client(Login(token="hunter2")) as client:
        with pytest.raises(errors.Invalid) as caught:
            await client.apply(kinds.SECRET, "ns", "db", {"stringData": {"password": "hunter3"}})
        assert up.seen == ["Bearer hunter2"]
    assert "hunter" not in f"{caught.value!s} {caught.value!r} {client.connection!r}"
    assert caught.value.details == (("spec.x", "wrong"),)
    assert str(caught.value) == "apply Secret ns/db: spec.x: wrong"


async def test_an_apply_is_sent_as_server_side_apply() -> None:
    """Method, query, content type and body."""
    seen: list[Any] = []

    async def server(request: web.Request) -> web.StreamResponse:
        seen.extend((request.method, request.path, dict(request.query), request.content_type, await request.json()))
        return web.json_response({})

    async with wire(server) as up, up.client() as client:
        await client.apply(kinds.DEPLOYMENT, "ns", "web", {"spec": {}}, force=True, dry_run=True, subresource="status")
    query = {"fieldManager": "hanei", "fieldValidation": "Strict", "force": "true", "dryRun": "All"}
    path = "/apis/apps/v1/namespaces/ns/deployments/web/status"
    assert seen == ["PATCH", path, query, "application/apply-patch+yaml", {"spec": {}}]


async def test_a_delete_carries_its_preconditions() -> None:
    """So that another object of the same name is never deleted."""
    seen: list[Any] = []

    async def server(request: web.Request) -> web.StreamResponse:
        seen.append((await request.json())["preconditions"])
        return web.json_response({})

    async with wire(server) as up, up.client() as client:
        await client.delete(kinds.POD, "ns", "web", uid="u", resource_version="5")
        await client.delete(kinds.POD, "ns", "web")
    assert seen == [{"uid": "u", "resourceVersion": "5"}, {}]


async def test_watches_never_keep_a_request_waiting() -> None:
    """With one connection for requests and many open watches, a get still goes through."""

    async def server(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = await stream(request, _line("ADDED"))
            await asyncio.sleep(30)
            return response
        return web.json_response({})

    async with wire(server) as up, up.client(settings=replace(QUICK, connection_limit=1)) as client:
        watches = [client.watch(kinds.POD, "ns", resource_version="1", timeout=9) for _ in range(5)]
        for watch in watches:
            await anext(watch)
        assert await client.get(kinds.POD, "ns", "web") == b"{}"
        for watch in watches:
            await watch.aclose()


async def test_requests_are_counted_by_verb_and_code() -> None:
    """Answers by their code, and what got none."""

    async def server(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            return await cut(request)
        return web.json_response({})

    async with wire(server) as up, up.client() as client:
        await client.get(kinds.POD, "ns", "web")
        await client.apply(kinds.POD, "ns", "web", {})
        with pytest.raises(errors.Disconnected):
            await client.delete(kinds.POD, "ns", "web")
    text = client.metrics.text().decode()
    assert 'hanei_api_requests_total{code="200",verb="get"} 1.0' in text
    assert 'hanei_api_requests_total{code="200",verb="apply"} 1.0' in text


async def test_a_path_that_leaves_the_server_is_refused() -> None:
    """A path starts at the server's root, or it would be part of the host's name."""
    async with Client(Connection("http://127.0.0.1:1"), QUICK) as client:
        with pytest.raises(WrongUse):
            await client.request("GET", "@elsewhere/")


async def test_a_server_below_a_path_keeps_that_path() -> None:
    """Rancher and other proxies serve a cluster below a prefix."""
    seen: list[str] = []

    async def server(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        return web.json_response({"gitVersion": "v1.37.2"})

    async with wire(server) as up, Client(Connection(f"{up.url}/k8s/one"), QUICK) as client:
        assert await client.version() == "v1.37.2"
    assert seen == ["/k8s/one/version"]


# Watches


async def test_events_may_be_cut_into_pieces_anywhere() -> None:
    """The stream's pieces and its lines have nothing to do with each other."""
    text = _line("ADDED", a=1) + _line("MODIFIED", a=2) + _line("BOOKMARK", a=3)

    async def server(request: web.Request) -> web.StreamResponse:
        return await stream(request, *(text[at : at + 5] for at in range(0, len(text), 5)))

    async with wire(server) as up, up.client() as client:
        seen = await _watch(client)
    assert [(event.type, orjson.loads(event.object)["a"]) for event in seen] == [
        ("ADDED", 1), ("MODIFIED", 2), ("BOOKMARK", 3),
    ]  # fmt: skip


async def test_an_object_of_a_megabyte_and_a_half_is_one_event() -> None:
    """The largest object that etcd takes arrives on one line."""

    async def server(request: web.Request) -> web.StreamResponse:
        return await stream(request, _line("ADDED", big="x" * 1_500_000))

    async with wire(server) as up, up.client() as client:
        assert len((await _watch(client))[0].object) > 1_500_000


async def test_a_line_without_end_does_not_fill_the_memory() -> None:
    """What is no watch at all is given up."""

    async def server(request: web.Request) -> web.StreamResponse:
        return await stream(request, *(b"x" * 1_000_000 for _ in range(40)))

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Disconnected, match="a line of more than"):
            await _watch(client)


async def test_an_error_inside_the_stream_is_raised_by_its_own_code() -> None:
    """The HTTP answer was a 200 long ago."""

    async def server(request: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        return await stream(request, _line("ERROR", **body))

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Gone, match="too old") as caught:
            await _watch(client)
    assert caught.value.status == 410


@pytest.mark.parametrize("tail", [b"", b'{"type":"ADDED","obj'])
async def test_a_watch_that_is_cut_is_disconnected(tail: bytes) -> None:
    """Between two events or within one."""

    async def server(request: web.Request) -> web.StreamResponse:
        return await cut(request, _line("ADDED", a=1), tail) if tail else await cut(request, _line("ADDED", a=1))

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Disconnected):
            await _watch(client)


async def test_a_stream_that_ends_well_within_an_event_is_disconnected() -> None:
    """A proxy may close properly where the server did not."""

    async def server(request: web.Request) -> web.StreamResponse:
        return await stream(request, _line("ADDED", a=1), b'{"type":"ADDED","obj')

    async with wire(server) as up, up.client() as client:
        with pytest.raises(errors.Disconnected, match="middle of an event"):
            await _watch(client)


async def test_s06_a_silent_watch_is_dead_after_its_silence() -> None:
    """A connection that nobody closes is not waited on for ever."""

    async def server(request: web.Request) -> web.StreamResponse:
        response = await stream(request, _line("ADDED", a=1))
        await asyncio.sleep(30)
        return response

    async with wire(server) as up, up.client() as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.RequestTimeout):
            await _watch(client, timeout=0.1)
        assert asyncio.get_running_loop().time() - began < 5


async def test_a_watch_asks_for_bookmarks_from_where_it_stands() -> None:
    """The query of a watch."""
    seen: list[dict[str, str]] = []

    async def server(request: web.Request) -> web.StreamResponse:
        seen.append(dict(request.query))
        return await stream(request)

    async with wire(server) as up, up.client() as client:
        assert await _watch(client, timeout=90) == []
    assert seen == [{"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "90"}]
