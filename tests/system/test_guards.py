"""Guarded writes: what the API server answers when an object is another one than the plan was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from hanei import kinds
from hanei.kube.client import Client
from hanei.kube.config import load
from hanei.kube.errors import Conflict, Invalid

if TYPE_CHECKING:
    from tests.system import world as w

pytestmark = [pytest.mark.system]


async def test_a_change_of_another_object_of_that_name_is_told_by_its_uid(world: w.World) -> None:
    """Gone: a conflict. Another uid: a conflict, or invalid with exactly the field `metadata.uid`."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": world.namespace},
        "data": {"k": "v"},
    }
    async with Client(load(world.cluster.kubeconfig)) as client:
        other = {**body, "metadata": {**body["metadata"], "uid": "00000000-0000-0000-0000-000000000001"}}  # type: ignore[dict-item]
        with pytest.raises(Conflict):
            await client.apply(kinds.CONFIG_MAP, world.namespace, "a", other, force=True)
        await client.apply(kinds.CONFIG_MAP, world.namespace, "a", body)
        with pytest.raises((Conflict, Invalid)) as caught:
            await client.apply(kinds.CONFIG_MAP, world.namespace, "a", {**other, "data": {"k": "other"}}, force=True)
        assert isinstance(caught.value, Conflict) or [where for where, _ in caught.value.details] == ["metadata.uid"]


TEXTS = {
    "delete": "a\x7fb", "a C1 control": "a\x80b", "next line": "a\x85b", "byte order mark": "\ufeffab", "line separator": "a\u2028b",
    "paragraph separator between spaces": "a \u2029 b", "no character": "a\uffffb", "null": "a\x00b", "emoji": "\U0001f375",
    "line ends of all kinds": "a\rb\r\nc", "tab": "\ta", "combining": "e\u0301", "private use": "\ue000", "backslashes": "a\\u0085\\\\b",
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
async def test_s65_an_applied_text_is_stored_byte_for_byte(world: w.World, case: str) -> None:
    """The server reads the body of an apply as YAML: what YAML would fold or refuse is escaped."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": world.namespace},
        "data": {"k": TEXTS[case]},
    }
    async with Client(load(world.cluster.kubeconfig)) as client:
        raw = await client.apply(kinds.CONFIG_MAP, world.namespace, "a", body)
    assert orjson.loads(raw)["data"]["k"] == TEXTS[case]
