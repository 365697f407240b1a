"""A local HTTP server that answers as a test says, for what goes wrong on the wire.

It stands for networks, proxies and sick servers. What Kubernetes itself answers is tested in `tests/system`.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hanei.kube.client import Client
from hanei.kube.config import Connection
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from hanei.kube.config import Login, Tls

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUICK = replace(OperatorSettings(), connect_timeout=1.0, request_timeout=1.0, watch_silence=0.4, exec_timeout=2.0)


@dataclass
class Wire:
    """A server that is up. `seen` holds every request's Authorization header."""

    url: str
    seen: list[str] = field(default_factory=list)

    def client(self, login: Login | None = None, tls: Tls | None = None, settings: OperatorSettings = QUICK) -> Client:
        made = Connection(self.url, source="file config, context test")
        return Client(replace(made, credentials=login or made.credentials, tls=tls or made.tls), settings)


@contextlib.asynccontextmanager
async def wire(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """Serve every path by `handler`, over TLS if there is a context."""
    running = Wire("")

    async def noted(request: web.Request) -> web.StreamResponse:
        running.seen.append(request.headers.get("Authorization", ""))
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", noted)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        running.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        yield running
    finally:
        await runner.cleanup()


def status(code: int, reason: str = "", message: str = "", **details: object) -> web.Response:
    """An answer as the API server gives it when it refuses."""
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return web.json_response({**body, "details": details}, status=code)


async def stream(request: web.Request, *pieces: bytes) -> web.StreamResponse:
    """A watch that sends these pieces and ends well."""
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def cut(request: web.Request, *pieces: bytes, length: int | None = None) -> web.StreamResponse:
    """An answer that breaks off after these pieces."""
    response = web.StreamResponse()
    if length:
        response.content_length = length
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    assert request.transport is not None
    request.transport.close()
    return response


@dataclass(frozen=True)
class Pem:
    certificate: bytes
    key: bytes


class Authority:
    """A CA made for one test."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
        self.certificate = self._sign(self._name, self._key, ca=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> Pem:
        """A certificate for a server at 127.0.0.1 and `name`, or a client of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, ca=False)
        return Pem(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName(str(subject.rfc4514_string()).removeprefix("CN="))]
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([*([] if ca else names), address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
