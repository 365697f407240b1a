"""A service account's token, as a pod has it, against a real API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator  # noqa: TC003 (pytest reads fixture annotations)
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from hanei import kinds
from hanei.kube.client import Client
from hanei.kube.config import Connection, ExecPlugin, Login, load
from hanei.kube.errors import Forbidden, Unauthorized
from hanei.settings import OperatorSettings

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system]

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
ONLY_ON_REFUSAL = replace(OperatorSettings(), token_reread=1e6)


@pytest.fixture
async def admin(hanei_cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(load(hanei_cluster.kubeconfig)) as made:
        yield made


async def account(admin: Client, namespace: str) -> None:
    """The account `robot`, which may edit its namespace."""
    await admin.create(kinds.SERVICE_ACCOUNT, namespace, ACCOUNT)
    binding: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
    }
    await admin.apply(kinds.ROLE_BINDING, namespace, "robot", binding, force=True)


async def token(admin: Client, namespace: str) -> str:
    """A short token of `robot`, from the TokenRequest API."""
    path = kinds.SERVICE_ACCOUNT.path(namespace, "robot", "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    found: str = orjson.loads(await admin.post_raw(path, body))["status"]["token"]
    return found


def as_robot(admin: Client, login: Login) -> Connection:
    return replace(admin.connection, credentials=login)


async def test_a_mounted_token_works_within_its_rights(admin: Client, hanei_namespace: str, tmp_path: Path) -> None:
    """As in a pod; elsewhere it is forbidden, with the right that is missing in the message."""
    await account(admin, hanei_namespace)
    file = tmp_path / "token"
    file.write_text(await token(admin, hanei_namespace), "utf-8")
    async with Client(as_robot(admin, Login(token_file=file))) as robot:
        assert [page async for page in robot.list_pages(kinds.CONFIG_MAP, hanei_namespace)]
        with pytest.raises(Forbidden, match='cannot list resource "configmaps" in API group "" in the namespace'):
            _ = [page async for page in robot.list_pages(kinds.CONFIG_MAP, "kube-system")]


async def test_a_token_that_ends_is_replaced_from_its_file_by_the_refusal(
    admin: Client, hanei_namespace: str, tmp_path: Path
) -> None:
    """The account is made anew, so its old token ends; the file holds a new one, and no request fails."""
    await account(admin, hanei_namespace)
    file = tmp_path / "token"
    old = await token(admin, hanei_namespace)
    file.write_text(old, "utf-8")
    async with (
        Client(as_robot(admin, Login(token_file=file)), ONLY_ON_REFUSAL) as robot,
        Client(as_robot(admin, Login(token=old)), ONLY_ON_REFUSAL) as witness,
    ):
        await robot.get(kinds.SERVICE_ACCOUNT, hanei_namespace, "robot")
        await admin.delete(kinds.SERVICE_ACCOUNT, hanei_namespace, "robot")
        await admin.create(kinds.SERVICE_ACCOUNT, hanei_namespace, ACCOUNT)
        file.write_text(await token(admin, hanei_namespace), "utf-8")
        # The server remembers a token for some seconds; when the old one is refused, the client has met that too.
        refused = False
        async with asyncio.timeout(60):
            while not refused:
                await asyncio.sleep(0.5)
                try:
                    await witness.get(kinds.SERVICE_ACCOUNT, hanei_namespace, "robot")
                except Unauthorized:
                    refused = True
        await robot.get(kinds.SERVICE_ACCOUNT, hanei_namespace, "robot")
        text = robot.metrics.text().decode()
        assert 'hanei_api_requests_total{code="401",verb="get"} 1.0' in text


async def test_a_token_from_a_plugin_is_asked_for_again_after_a_refusal(
    admin: Client, hanei_namespace: str, tmp_path: Path
) -> None:
    """The first run says nonsense, the second the truth."""
    await account(admin, hanei_namespace)
    (tmp_path / "token").write_text(await token(admin, hanei_namespace), "utf-8")
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "first = not (folder / 'ran').exists()\n"
        "(folder / 'ran').touch()\n"
        "token = 'nonsense' if first else (folder / 'token').read_text()\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',\n"
        "                  'status': {'token': token}}))\n",
        "utf-8",
    )
    login = Login(plugin=ExecPlugin(sys.executable, (str(script), str(tmp_path))))
    async with Client(as_robot(admin, login)) as robot:
        await asyncio.gather(*(robot.get(kinds.SERVICE_ACCOUNT, hanei_namespace, "robot") for _ in range(5)))


async def test_nonsense_is_unauthorized(admin: Client, hanei_namespace: str) -> None:
    """And the token is not in the message."""
    async with Client(as_robot(admin, Login(token="nonsense-token"))) as robot:
        with pytest.raises(Unauthorized) as caught:
            await robot.get(kinds.CONFIG_MAP, hanei_namespace, "x")
    assert "nonsense-token" not in str(caught.value)
