"""Credentials as they are now: tokens, rotating files, client certificates and exec plugins.

Used by `hanei.kube.client` before each request and after a 401. Files are read and plugins run off the loop; whatever
many requests need at once is obtained once. Nothing here logs, and no message holds what a plugin printed as its
credential.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hanei.kube.errors import Unauthorized

if TYPE_CHECKING:
    from hanei.kube.config import ExecPlugin, Login, Material
    from hanei.kube.tls import Pair
    from hanei.settings import OperatorSettings

_LEEWAY = 10.0
"""A plugin's credential is renewed so many seconds before it expires, so that no request meets the last moment."""

_SHOWN = 200
"""Characters shown of what a failing plugin wrote to its standard error."""


@dataclass(frozen=True, slots=True)
class Auth:
    """What one request carries."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    certificate: Pair | None = field(default=None, repr=False)


class Credentials:
    """Who we are at one API server. One per client; made inside a running loop."""

    def __init__(self, login: Login, settings: OperatorSettings) -> None:
        self._login = login
        self._settings = settings
        self._lock = asyncio.Lock()
        self._auth: Auth | None = None
        self._good_until = -math.inf

    async def current(self) -> Auth:
        """What requests carry now. Raises Unauthorized when nothing can be had."""
        known = self._auth
        if known is not None and asyncio.get_running_loop().time() < self._good_until:
            return known
        return await self._renew(known)

    async def after_refusal(self, refused: Auth) -> Auth | None:
        """Something else to try after a 401, or None if there is nothing else."""
        fresh = await self._renew(refused)
        return fresh if fresh != refused else None

    async def _renew(self, known: Auth | None) -> Auth:
        """Obtain anew, unless somebody else just did: then theirs."""
        async with self._lock:
            if self._auth is not None and self._auth is not known:
                return self._auth
            now = asyncio.get_running_loop().time()
            self._auth, lifetime = await self._obtain()
            self._good_until = now + lifetime
            return self._auth

    async def _obtain(self) -> tuple[Auth, float]:
        """Credentials and how long they are good for, in seconds."""
        login = self._login
        if login.plugin is not None and not (login.token or login.token_file or login.username):
            said, lifetime = await _run(login.plugin, self._settings.exec_timeout)
            pair = said.pair() or await asyncio.to_thread(_pair, login)
            return Auth((*_bearer(said.token), *login.impersonate), pair), lifetime
        headers, pair = await asyncio.to_thread(_from_login, login)
        files = (login.token_file, login.certificate, login.key)
        rotates = any(isinstance(item, Path) for item in files)
        return Auth((*headers, *login.impersonate), pair), self._settings.token_reread if rotates else math.inf


def _bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Bearer {token}"),) if token else ()


def _from_login(login: Login) -> tuple[tuple[tuple[str, str], ...], Pair | None]:
    """Headers and certificate of everything but a plugin; blocks. The file wins over the token, as in client-go."""
    token = login.token
    if login.token_file is not None:
        token = _read(login.token_file, fallback=login.token.encode()).decode("ascii", "replace").strip()
    if login.username and not token:
        basic = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        return (("Authorization", f"Basic {basic}"),), _pair(login)
    return _bearer(token), _pair(login)


def _pair(login: Login) -> Pair | None:
    if login.certificate is None or login.key is None:
        return None
    return _read(login.certificate), _read(login.key)


def _read(material: Material, *, fallback: bytes = b"") -> bytes:
    if isinstance(material, bytes):
        return material
    try:
        return material.read_bytes() or fallback
    except OSError as error:
        if fallback:
            return fallback
        raise Unauthorized(f"{material}: {error.strerror or error}, so there is nothing to log in with") from error


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def pair(self) -> Pair | None:
        if not (self.client_certificate_data and self.client_key_data):
            return None
        return self.client_certificate_data.encode(), self.client_key_data.encode()


class _ExecCredential(msgspec.Struct):
    apiVersion: str  # noqa: N815 (the API's own word)
    kind: str
    status: _PluginStatus


async def _run(plugin: ExecPlugin, limit: float) -> tuple[_PluginStatus, float]:
    """Run the plugin once: what it says, and for how many seconds that holds."""
    output = await _output(plugin, limit)
    try:
        said = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError:
        # The decoder's own message could quote the output, which holds the credential.
        raise _failed(plugin, "it printed no ExecCredential") from None
    if said.kind != "ExecCredential" or said.apiVersion != plugin.api_version:
        raise _failed(plugin, f"it printed {said.apiVersion} {said.kind} instead of {plugin.api_version}")
    if not said.status.token and said.status.pair() is None:
        raise _failed(plugin, "it printed neither a token nor a certificate with its key")
    if said.status.expiration_timestamp is None:
        return said.status, math.inf
    left = (said.status.expiration_timestamp - datetime.now(UTC)).total_seconds()
    # Short-lived credentials are renewed at half their life, or each request would run the plugin.
    return said.status, max(left - _LEEWAY, left / 2)


async def _output(plugin: ExecPlugin, limit: float) -> bytes:
    """What the plugin prints; it is killed when we give up or are cancelled."""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _exec_info(plugin)},
            stdin=None if plugin.interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise _failed(plugin, error.strerror or str(error), hint=plugin.install_hint) from error
    try:
        async with asyncio.timeout(limit):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise _failed(plugin, f"no answer within {limit:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        words = complaint.decode("utf-8", "replace").strip()[-_SHOWN:]
        raise _failed(plugin, f"exit code {process.returncode}: {words}", hint=plugin.install_hint)
    return output


def _exec_info(plugin: ExecPlugin) -> str:
    spec: dict[str, object] = {"interactive": plugin.interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def _failed(plugin: ExecPlugin, what: str, *, hint: str = "") -> Unauthorized:
    return Unauthorized(f"The credential plugin {plugin.command!r} failed: {what}", status=0, hint=hint)
