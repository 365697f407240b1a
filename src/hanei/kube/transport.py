"""HTTP to one API server: one request, one answer or stream, one typed error.

Below `hanei.kube.client`, which knows Kubernetes; here is only aiohttp, TLS, credentials and what can go wrong on the
wire. Nothing is retried, with one exception: a 401 renews the credentials and the request is sent once more, which is
safe because a refused request did nothing. Redirects are never followed (they would carry the token elsewhere).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import aiohttp
from yarl import URL

from hanei.kube import tls
from hanei.kube.auth import Auth, Credentials
from hanei.kube.errors import Disconnected, KubeError, RequestTimeout, Unauthorized, from_response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from types import TracebackType

    from hanei.kube.config import Connection
    from hanei.observe.metrics import Metrics
    from hanei.settings import OperatorSettings

_KEEPALIVE = 60.0
"""Idle seconds before a connection is given up; the API server does so after 90, and should not be the first."""

_LARGE = 512 * 1024

_LAST_TURNS = 50
"""How often the loop turns, 10 ms apart, for connections that are being torn down."""

_PROBES = 3
"""Unanswered TCP probes after which a connection is dead."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `what` describes it for messages, `verb` for metrics; `target` is path and query, quoted."""

    verb: str
    what: str
    method: str
    target: str
    body: bytes | None = None
    content_type: str = "application/json"


class Transport:
    """Connections to one API server. An async context manager; made and used in one loop."""

    def __init__(self, connection: Connection, settings: OperatorSettings, metrics: Metrics, user_agent: str) -> None:
        self._connection = connection
        self._settings = settings
        self._metrics = metrics
        self._user_agent = user_agent
        self._credentials = Credentials(connection.credentials, settings)
        self._tls: tuple[tls.Pair | None, ssl.SSLContext] | None = None
        self._sockets = weakref.WeakSet[socket.socket]()

    async def __aenter__(self) -> Self:
        # Watches hold a connection each for minutes: of their own, so that they never keep a request waiting.
        self._requests = self._session(self._settings.connection_limit)
        self._streams = self._session(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._requests.close()
        await self._streams.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        """End the connections that still wait for the server's TLS goodbye, which a server that hangs never says.

        aiohttp no longer knows them (they were given back when their request failed), and asyncio would leave them to
        the collector. Shut down from below, each sees the end of its stream and closes itself.
        """
        for made in self._sockets:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for _ in range(_LAST_TURNS):
            if all(made.fileno() == -1 for made in self._sockets):
                return
            await asyncio.sleep(0.01)

    async def send(self, call: Call, limit: float) -> bytes:
        """The body of a successful answer. `limit` bounds everything, in seconds."""
        limits = aiohttp.ClientTimeout(total=limit, sock_connect=self._settings.connect_timeout)
        with self._failures(call):
            async with self._open(self._requests, call, limits) as response:
                return await response.read()

    async def stream(self, call: Call, silence: float) -> AsyncGenerator[bytes, None]:
        """The body of a successful answer in pieces as they come; nothing for `silence` seconds is an error."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout, sock_read=silence)
        with self._failures(call):
            async with self._open(self._streams, call, limits) as response:
                async for piece in response.content.iter_any():
                    yield piece

    @contextlib.asynccontextmanager
    async def _open(
        self, session: aiohttp.ClientSession, call: Call, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer, with the credentials renewed once if they are refused."""
        auth = await self._credentials.current()
        response = await self._begin(session, call, limits, auth)
        try:
            if response.status == 401:
                fresh = await self._credentials.after_refusal(auth)
                if fresh is not None:
                    response.release()
                    response = await self._begin(session, call, limits, fresh)
            if response.status >= 300:
                raise from_response(response.status, response.headers, await response.read(), call.what)
            yield response
        except BaseException:
            response.close()
            raise
        response.release()

    async def _begin(
        self, session: aiohttp.ClientSession, call: Call, limits: aiohttp.ClientTimeout, auth: Auth
    ) -> aiohttp.ClientResponse:
        headers = dict(auth.headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        response = await session.request(
            call.method,
            URL(self._connection.server + call.target, encoded=True),
            data=_sendable(call.body),
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            ssl=await self._context(auth.certificate),
            server_hostname=self._connection.tls.server_name,
        )
        self._metrics.request(call.verb, response.status)
        return response

    async def _context(self, certificate: tls.Pair | None) -> ssl.SSLContext | bool:
        """The TLS context for this certificate; made anew when it rotates."""
        if not self._connection.server.startswith("https://"):
            return True
        if self._tls is None or self._tls[0] != certificate:
            self._tls = (certificate, await asyncio.to_thread(tls.context, self._connection.tls, certificate))
        return self._tls[1]

    def _session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit, keepalive_timeout=_KEEPALIVE, ttl_dns_cache=10, socket_factory=self._socket
            ),
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=self._settings.read_buffer,
            trust_env=False,
        )

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket that notices a dead network in idle + probes seconds, although nothing is being sent."""
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        idle = self._settings.keepalive_idle
        options = {"TCP_KEEPIDLE": idle, "TCP_KEEPINTVL": max(1, idle // _PROBES), "TCP_KEEPCNT": _PROBES}
        for name, value in options.items():
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return made

    @contextlib.contextmanager
    def _failures(self, call: Call) -> Iterator[None]:
        """Everything that aiohttp raises, as our types."""
        try:
            yield
        except KubeError as error:
            if isinstance(error, Unauthorized) and error.status == 0:
                self._metrics.request(call.verb, 0)
            raise
        except TimeoutError as error:
            self._metrics.request(call.verb, 0)
            raise RequestTimeout(f"{call.what}: no answer from {self._connection.server} in time") from error
        except (aiohttp.ClientError, OSError) as error:
            self._metrics.request(call.verb, 0)
            raise self._unreachable(call, error) from error

    def _unreachable(self, call: Call, error: Exception) -> KubeError:
        server, hint = self._connection.server, ""
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            self._tls = None  # The CA file may have rotated: read it again next time.
            hint = f"The certificate of {server} must match the CA and name in {self._connection.source}."
        elif isinstance(error, aiohttp.ClientConnectorError):
            hint = f"Is it running? The address comes from {self._connection.source}."
        if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
            return Disconnected(f"{call.what}: the connection to {server} was cut")
        return Disconnected(f"{call.what}: no connection to {server}: {_words(error)}", hint=hint)


def _sendable(body: bytes | None) -> bytes | io.BytesIO | None:
    """Large bodies as a file, which aiohttp sends in pieces between which the loop turns."""
    return io.BytesIO(body) if body is not None and len(body) > _LARGE else body


def _words(error: Exception) -> str:
    """What happened, without aiohttp's decoration."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
