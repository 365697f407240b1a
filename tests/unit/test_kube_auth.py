"""Credentials that rotate, expire, and come from plugins."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from blockbuster import blockbuster_ctx

from hanei import kinds
from hanei.kube.auth import Credentials
from hanei.kube.config import ExecPlugin, Login
from hanei.kube.errors import Unauthorized
from tests.unit.kube_wire import QUICK, status, wire

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.kube_wire import Handler

PLUGIN = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
runs = folder / "runs"
number = len(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text("x" * number)
(folder / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"] + os.environ.get("EXTRA", ""))
time.sleep(float(os.environ.get("SLOW", "0")))
status = {"token": f"token-{number}"}
if len(sys.argv) > 2:
    status["expirationTimestamp"] = sys.argv[2]
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


def plugin(folder: Path, *args: str, code: str = PLUGIN, **env: str) -> ExecPlugin:
    """A plugin that counts its runs in `folder` and says token-1, token-2, …"""
    script = folder / "plugin.py"
    script.write_text(code, "utf-8")
    return ExecPlugin(sys.executable, (str(script), str(folder), *args), tuple(env.items()))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text("utf-8"))


def accepts(*tokens: str) -> Handler:
    """A server that takes these tokens only."""

    async def server(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") in [f"Bearer {token}" for token in tokens]:
            return web.json_response({})
        return status(401, "Unauthorized", "Unauthorized")

    return server


async def test_a_token_is_sent_and_a_refusal_of_it_is_final() -> None:
    """There is nothing else to offer, so the server is asked once."""
    async with wire(accepts("good")) as up:
        async with up.client(Login(token="good")) as client:
            await client.get(kinds.POD, "ns", "web")
        async with up.client(Login(token="bad")) as client:
            with pytest.raises(Unauthorized):
                await client.get(kinds.POD, "ns", "web")
        assert up.seen == ["Bearer good", "Bearer bad"]


async def test_a_token_file_that_rotated_is_read_after_a_401(tmp_path: Path) -> None:
    """The request is sent once more and succeeds; nobody above notices."""
    file = tmp_path / "token"
    file.write_text("old\n", "utf-8")
    async with wire(accepts("new")) as up, up.client(Login(token_file=file)) as client:
        with pytest.raises(Unauthorized):
            await client.get(kinds.POD, "ns", "web")
        file.write_text("new\n", "utf-8")
        assert await client.get(kinds.POD, "ns", "web") == b"{}"
        assert up.seen == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_token_file_is_read_again_in_time_without_any_refusal(tmp_path: Path) -> None:
    """Kubelets rotate the file long before the old token expires."""
    file = tmp_path / "token"
    file.write_text("one", "utf-8")
    credentials = Credentials(Login(token_file=file), replace(QUICK, token_reread=0.0))
    assert (await credentials.current()).headers == (("Authorization", "Bearer one"),)
    file.write_text("two", "utf-8")
    assert (await credentials.current()).headers == (("Authorization", "Bearer two"),)


async def test_a_token_file_that_is_missing_names_itself(tmp_path: Path) -> None:
    """Unless a token is given as well, which then serves."""
    file = tmp_path / "token"
    with pytest.raises(Unauthorized, match="token"):
        await Credentials(Login(token_file=file), QUICK).current()
    both = Credentials(Login(token_file=file, token="spare"), QUICK)
    assert (await both.current()).headers == (("Authorization", "Bearer spare"),)


async def test_name_and_password_are_sent_as_basic() -> None:
    """Old clusters and proxies."""
    auth = await Credentials(Login(username="ann", password="pw"), QUICK).current()
    assert auth.headers == (("Authorization", "Basic " + base64.b64encode(b"ann:pw").decode()),)


async def test_impersonation_goes_along() -> None:
    """As kubectl --as."""
    login = Login(token="t", impersonate=(("Impersonate-User", "bob"),))
    assert ("Impersonate-User", "bob") in (await Credentials(login, QUICK).current()).headers


async def test_a_plugin_runs_once_for_many_requests_and_never_blocks_the_loop(tmp_path: Path) -> None:
    """Twenty requests at once, one run."""
    login = Login(plugin=plugin(tmp_path, SLOW="0.1"))
    async with wire(accepts("token-1")) as up, up.client(login) as client:
        with blockbuster_ctx("hanei"):
            await asyncio.gather(*(client.get(kinds.POD, "ns", "web") for _ in range(20)))
    assert runs(tmp_path) == 1


async def test_a_plugins_credential_is_renewed_after_a_401_once_for_all(tmp_path: Path) -> None:
    """The refused one is replaced by one run, however many requests met the refusal."""
    async with wire(accepts("token-2")) as up, up.client(Login(plugin=plugin(tmp_path))) as client:
        await asyncio.gather(*(client.get(kinds.POD, "ns", "web") for _ in range(10)))
    assert runs(tmp_path) == 2


async def test_a_plugins_credential_is_renewed_when_it_expires(tmp_path: Path) -> None:
    """An expired one is not used again; one that lasts is."""
    past = (datetime.now(UTC) - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    credentials = Credentials(Login(plugin=plugin(tmp_path, past)), QUICK)
    first, second = await credentials.current(), await credentials.current()
    assert first != second
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    credentials = Credentials(Login(plugin=plugin(tmp_path, later)), QUICK)
    assert await credentials.current() is await credentials.current()


async def test_a_plugin_is_told_about_the_cluster_only_if_it_asked(tmp_path: Path) -> None:
    """KUBERNETES_EXEC_INFO, and the variables of its own."""
    asked = replace(plugin(tmp_path, EXTRA=""), cluster={"server": "https://x"})
    await Credentials(Login(plugin=asked), QUICK).current()
    told = json.loads((tmp_path / "info").read_text("utf-8"))
    assert told["spec"] == {"interactive": False, "cluster": {"server": "https://x"}}
    await Credentials(Login(plugin=plugin(tmp_path)), QUICK).current()
    assert json.loads((tmp_path / "info").read_text("utf-8"))["spec"] == {"interactive": False}


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import sys; sys.exit('no session')", "exit code 1: no session"),
        ("print('hunter2')", "no ExecCredential"),
        (
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1alpha1","kind":"ExecCredential","status":{}}\')',
            "v1alpha1",
        ),
        (
            'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}\')',
            "neither a token",
        ),
        ("import time; time.sleep(60)", "no answer within"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_what_it_did(tmp_path: Path, code: str, complaint: str) -> None:
    """And what it printed as a credential is never shown."""
    credentials = Credentials(Login(plugin=plugin(tmp_path, code=code)), replace(QUICK, exec_timeout=1.0))
    with pytest.raises(Unauthorized, match=complaint) as caught:
        await credentials.current()
    assert "hunter2" not in str(caught.value)


async def test_a_plugin_that_is_not_installed_says_how_to_install_it() -> None:
    """The hint comes from the kubeconfig."""
    missing = ExecPlugin("no-such-plugin", install_hint="Install it with apt.")
    with pytest.raises(Unauthorized, match="Install it with apt"):
        await Credentials(Login(plugin=missing), QUICK).current()


async def test_a_request_given_up_ends_its_plugin(tmp_path: Path) -> None:
    """No process stays behind, and the next request runs the plugin again."""
    credentials = Credentials(Login(plugin=plugin(tmp_path, code="import time; time.sleep(60)")), QUICK)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await credentials.current()
    plugin(tmp_path)
    assert (await credentials.current()).headers
