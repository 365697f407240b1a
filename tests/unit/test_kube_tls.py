"""Who the server is, and who we are by certificate."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import tempfile
import threading
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from hanei import kinds
from hanei.errors import ConfigError
from hanei.kube import tls
from hanei.kube.client import Client
from hanei.kube.config import Connection, Login, Tls
from hanei.kube.errors import Disconnected, KubeError
from tests.unit.kube_wire import QUICK, Authority, Pem, wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


async def _peer(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    subject = {key: value for part in certificate.get("subject", ()) for key, value in part}
    return web.json_response({"name": subject.get("commonName")})


def _server(folder: Path, authority: Authority, name: str = "localhost", *, clients: bool = False) -> ssl.SSLContext:
    issued = authority.issue(name)
    (folder / "server.pem").write_bytes(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.pem.decode())
    return context


def _login(pem: Pem) -> Login:
    return Login(certificate=pem.certificate, key=pem.key)


async def test_a_server_of_our_ca_is_trusted_and_another_is_not(tmp_path: Path) -> None:
    """The error says which certificate and where the CA comes from."""
    ours, other = Authority(), Authority()
    async with wire(_peer, _server(tmp_path, ours)) as up:
        async with up.client(tls=Tls(ca=ours.pem)) as client:
            await client.get(kinds.POD, "ns", "web")
        async with up.client(tls=Tls(ca=other.pem)) as client:
            with pytest.raises(Disconnected, match=r"(?s)certificate verify failed.*context test"):
                await client.get(kinds.POD, "ns", "web")
        async with up.client(tls=Tls(insecure=True)) as client:
            await client.get(kinds.POD, "ns", "web")


async def test_f56_a_ca_file_that_rotated_is_read_again(tmp_path: Path) -> None:
    """After the first failure, without a restart."""
    ours, other = Authority(), Authority()
    file = tmp_path / "ca.crt"
    file.write_bytes(other.pem)
    async with wire(_peer, _server(tmp_path, ours)) as up, up.client(tls=Tls(ca=file)) as client:
        with pytest.raises(Disconnected):
            await client.get(kinds.POD, "ns", "web")
        file.write_bytes(ours.pem)
        await client.get(kinds.POD, "ns", "web")


async def test_the_server_name_is_the_one_that_was_given(tmp_path: Path) -> None:
    """tls-server-name, for a server reached by another address."""
    ours = Authority()
    async with wire(_peer, _server(tmp_path, ours, "api.example")) as up:
        async with up.client(tls=Tls(ca=ours.pem, server_name="api.example")) as client:
            await client.get(kinds.POD, "ns", "web")
        async with up.client(tls=Tls(ca=ours.pem, server_name="other.example")) as client:
            with pytest.raises(Disconnected):
                await client.get(kinds.POD, "ns", "web")


async def test_a_client_certificate_says_who_we_are_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key touches the disk for a moment, in a private folder."""
    ours, scratch = Authority(), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    login, trusted = _login(ours.issue("ann")), Tls(ca=ours.pem)
    async with wire(_peer, _server(tmp_path, ours, clients=True)) as up, up.client(login, trusted) as client:
        assert await client.get(kinds.POD, "ns", "web") == b'{"name": "ann"}'
    assert list(scratch.iterdir()) == []


async def test_a_client_certificate_that_rotated_is_used_for_new_requests(tmp_path: Path) -> None:
    """Files are read again; open connections of the old one are not."""
    ours = Authority()
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    login = Login(certificate=files[0], key=files[1])

    async def server(request: web.Request) -> web.StreamResponse:
        answer = await _peer(request)
        assert isinstance(answer, web.Response)
        return answer if answer.text and "new" in answer.text else web.json_response({}, status=401)

    async with wire(server, _server(tmp_path, ours, clients=True)) as up, up.client(login, Tls(ca=ours.pem)) as client:
        for name in ("old", "new"):
            issued = ours.issue(name)
            files[0].write_bytes(issued.certificate)
            files[1].write_bytes(issued.key)
            if name == "old":
                with pytest.raises(Exception, match="401"):
                    await client.get(kinds.POD, "ns", "web")
        assert await client.get(kinds.POD, "ns", "web") == b'{"name": "new"}'


def test_material_that_cannot_be_used_is_named() -> None:
    """Before the first handshake."""
    ours = Authority()
    with pytest.raises(ConfigError, match="no PEM certificate"):
        tls.context(Tls(ca=b"nothing"), None)
    with pytest.raises(ConfigError, match="cannot be used"):
        tls.context(Tls(ca=ours.pem), (ours.issue("a").certificate, ours.issue("b").key))


@contextlib.contextmanager
def _mute(context: ssl.SSLContext | None) -> Iterator[str]:
    """A server that hangs: after the TLS handshake, or before it where there is no context. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as taken:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = taken.enter_context(listening.accept()[0])
                    if context:
                        taken.enter_context(context.wrap_socket(connection, server_side=True))

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("shakes_hands", [True, False])
def test_no_connection_outlives_its_client_although_the_server_hangs(tmp_path: Path, *, shakes_hands: bool) -> None:
    """TLS says goodbye before it closes, and a server that hangs never answers that: a closed client does not wait."""
    ours = Authority()
    settings = replace(QUICK, request_timeout=0.2, connect_timeout=0.2)

    async def main(server: str) -> None:
        async with Client(Connection(server, source="test", tls=Tls(ca=ours.pem)), settings) as client:
            with pytest.raises(KubeError):
                await client.get(kinds.POD, "ns", "web")
            cut = asyncio.create_task(client.get(kinds.POD, "ns", "web"))
            await asyncio.sleep(0.05)
            cut.cancel()

    with (
        _mute(_server(tmp_path, ours) if shakes_hands else None) as server,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        asyncio.run(main(server))
        gc.collect()
    assert [str(warning.message) for warning in said] == []
