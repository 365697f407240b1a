"""The proxy between an operator and the real API server: TLS on loopback, an ordered trace, and faults by rule.

It runs in a thread of its own with its own loop, so that plain tests can steer it: `Proxy.rules = Rules([...])` takes
effect with the next request. Requests keep their own credentials; nothing of them is kept in the trace but what
`tests.fault.call` reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from aiohttp import web

from tests.fault.call import Call, call_of
from tests.fault.rules import Rule, Rules
from tests.fault.stream import edited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from tests.fault.rules import Moment

IDLE = 1.0
"""Seconds after which an idle connection is cut, as load balancers do: in every test through the proxy."""
_HOP = frozenset(("host", "connection", "transfer-encoding", "content-length", "keep-alive"))


@dataclass(slots=True)
class Seen:
    """One request, in the order of arrival. `write` numbers the counted writes from 1; `status` is 0 if no answer came."""

    call: Call
    write: int
    agent: str
    status: int = 0
    done: bool = False
    """Whether the API server was asked and answered."""


@dataclass
class Proxy:
    """`server` is the API server's address, `context` how it is reached, `victim` the pid of the operator, if it runs."""

    server: str
    context: ssl.SSLContext
    victim: Callable[[], int | None] = lambda: None
    rules: Rules = field(default_factory=Rules)
    trace: list[Seen] = field(default_factory=list)
    port: int = 0
    down: bool = False
    """While set, every connection breaks: the API server is away."""
    away: tuple[float, float] = (0.0, 0.0)
    """(seconds after the first write, for how long) `down` is set by itself."""
    _writes: int = 0
    _session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Begin a new trace, numbering writes from 1 again."""
        self.trace = []
        self._writes = 0

    def writes(self) -> list[Seen]:
        """The counted writes so far, in order."""
        return [seen for seen in self.trace if seen.write]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request of the operator."""
        if self.down:
            return _broken(request)
        call = call_of(request.method, request.path, request.query)
        self._writes += call.counted
        if self._writes and self.away[1]:
            (after, seconds), self.away = self.away, (0.0, 0.0)
            loop = asyncio.get_running_loop()
            loop.call_later(after, setattr, self, "down", True)
            loop.call_later(after + seconds, setattr, self, "down", False)
        seen = Seen(call, self._writes if call.counted else 0, request.headers.get("User-Agent", ""))
        self.trace.append(seen)
        rule = self.rules.take(call, seen.write) or Rule()
        body = await request.read()
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.status:
            seen.status = rule.status
            return web.json_response(_status(rule), status=rule.status, headers=rule.headers)
        if await self._at("before", rule):
            return _broken(request)
        return await self._forward(request, body, rule, seen)

    async def _forward(self, request: web.Request, body: bytes, rule: Rule, seen: Seen) -> web.StreamResponse:
        assert self._session is not None
        query = dict(request.query)
        if rule.old:
            query |= {"resourceVersion": rule.old, "resourceVersionMatch": "Exact"}
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        try:
            async with self._session.request(
                request.method, self.server + request.rel_url.raw_path, params=query, headers=headers, data=body or None
            ) as answer:
                seen.status, seen.done = answer.status, True
                if seen.call.verb == "watch" and answer.status == 200:
                    return await self._stream(request, answer, rule)
                content = await answer.read()
        except aiohttp.ClientConnectionError:
            return _broken(request)
        if await self._at("after", rule):
            return _broken(request)
        kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
        response = web.Response(status=answer.status, body=content, headers=kept)
        if rule.kill == "answered" or rule.freeze == "answered" or rule.lose == "answered":
            await response.prepare(request)
            await response.write_eof()
            await self._at("answered", rule)
        return response

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse, rule: Rule) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for piece in edited(_lines(answer), rule.stream):
                if piece is None or self.down:
                    return _broken(request)
                await response.write(piece)
            await response.write_eof()
        return response

    async def _at(self, moment: Moment, rule: Rule) -> bool:
        """Whether the connection is to be broken at this moment."""
        pid = self.victim()
        if rule.kill == moment and pid is not None:
            os.kill(pid, signal.SIGKILL)
        if rule.freeze == moment and pid is not None:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(rule.seconds)
            os.kill(pid, signal.SIGCONT)
        return moment in (rule.lose, rule.kill)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines, however long."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"


def _status(rule: Rule) -> dict[str, Any]:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
    reason = rule.reason or reasons.get(rule.status, "")
    return {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": rule.status, "reason": reason,
        "message": f"a fault by rule: {rule.status} {reason}", "metadata": {},
    }  # fmt: skip


def _broken(request: web.Request) -> web.StreamResponse:
    """Break the connection at once; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.contextmanager
def proxied(kubeconfig: Path, certificates: Path, victim: Callable[[], int | None]) -> Iterator[tuple[Proxy, Path]]:
    """A running proxy for what a kubeconfig points to, and a kubeconfig beside it that points to the proxy.

    `certificates` is a cluster's ``pki`` folder: the proxy proves itself as that API server does.
    """
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    proxy = Proxy(cluster["server"], context, victim)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    with _thread(proxy, own):
        cluster["server"] = proxy.url
        target = kubeconfig.with_name(f"proxied-{kubeconfig.name}")
        target.touch(mode=0o600)
        target.write_text(json.dumps(config))
        yield proxy, target


@contextlib.contextmanager
def _thread(proxy: Proxy, tls: ssl.SSLContext) -> Iterator[None]:
    loop, started, failure = asyncio.new_event_loop(), threading.Event(), list[BaseException]()
    stop = asyncio.Event()

    async def serve() -> None:
        connector = aiohttp.TCPConnector(ssl=proxy.context, limit=0)
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=limits, auto_decompress=False) as session:
            proxy._session = session
            app = web.Application(client_max_size=16 << 20)
            app.router.add_route("*", "/{tail:.*}", proxy.handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=IDLE)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
                await site.start()
                proxy.port = runner.addresses[0][1]
                started.set()
                await stop.wait()
            finally:
                await runner.cleanup()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failure.append(error)
        finally:
            for task in (left := asyncio.all_tasks(loop)):
                task.cancel()
            loop.run_until_complete(asyncio.wait(left)) if left else None
            loop.close()
            started.set()

    thread = threading.Thread(target=run, name="proxy")
    thread.start()
    started.wait()
    if failure:
        raise failure[0]
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    if failure:
        raise failure[0]


def by_verb(trace: list[Seen]) -> Mapping[str, int]:
    """How many requests of each verb."""
    counts: dict[str, int] = {}
    for seen in trace:
        counts[seen.call.verb] = counts.get(seen.call.verb, 0) + 1
    return counts
