"""What the client relies on, asked of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator  # noqa: TC003 (pytest reads fixture annotations)
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from hanei import kinds
from hanei.kube import errors
from hanei.kube.client import Client
from hanei.kube.config import load

if TYPE_CHECKING:
    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system]


@pytest.fixture
async def client(hanei_cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(load(hanei_cluster.kubeconfig)) as made:
        yield made


def config_map(name: str, /, metadata: dict[str, Any] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}, "data": data}


async def _apply(client: Client, namespace: str, body: dict[str, Any], **how: Any) -> dict[str, Any]:
    answer = await client.apply(kinds.CONFIG_MAP, namespace, body["metadata"]["name"], body, **how)
    found: dict[str, Any] = orjson.loads(answer)
    return found


async def test_1200_objects_are_listed_in_pages_of_one_version(client: Client, hanei_namespace: str) -> None:
    """Three pages; each item once; all pages say the same resourceVersion and how many are left."""
    limit = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with limit:
            await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map(f"cm-{number:04}"))

    async with asyncio.TaskGroup() as group:
        for number in range(1200):
            group.create_task(create(number))
    pages = [page async for page in client.list_pages(kinds.CONFIG_MAP, hanei_namespace)]
    assert [len(page.items) for page in pages[:2]] == [500, 500]
    names = [orjson.loads(item)["metadata"]["name"] for page in pages for item in page.items]
    assert sorted(set(names)) == sorted(names)
    assert {f"cm-{number:04}" for number in range(1200)} <= set(names)
    assert len({page.resource_version for page in pages}) == 1
    assert pages[0].remaining == len(names) - 500


async def test_a_watch_resumed_from_any_version_misses_nothing(client: Client, hanei_namespace: str) -> None:
    """From where a list stood, and from the version of an event."""
    pages = [page async for page in client.list_pages(kinds.CONFIG_MAP, hanei_namespace)]
    since = pages[-1].resource_version
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"))
    two = await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("two"))
    await client.merge_patch(kinds.CONFIG_MAP, hanei_namespace, "two", {"data": {"a": "b"}})
    await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one")

    async def watched(version: str, count: int) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        events = client.watch(kinds.CONFIG_MAP, hanei_namespace, resource_version=version, timeout=30)
        async with asyncio.timeout(20), aclosing(events):
            async for event in events:
                name = orjson.loads(event.object)["metadata"].get("name", "")
                if name in ("one", "two"):
                    seen.append((event.type, name))
                if len(seen) == count:
                    break
        return seen

    later = [("MODIFIED", "two"), ("DELETED", "one")]
    assert await watched(since, 4) == [("ADDED", "one"), ("ADDED", "two"), *later]
    assert await watched(orjson.loads(two)["metadata"]["resourceVersion"], 2) == later


async def test_the_server_ends_a_watch_in_time_and_well(client: Client, hanei_namespace: str) -> None:
    """After the seconds asked for; no error."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    events = client.watch(kinds.INGRESS, hanei_namespace, resource_version="0", timeout=1)
    assert [event.type async for event in events if event.type != "BOOKMARK"] == []
    assert 0.5 < loop.time() - began < 10


async def test_a_broken_continue_token_is_an_error_and_no_end(client: Client) -> None:
    """It is the server that says so; the list is not silently shorter."""
    with pytest.raises((errors.Gone, errors.BadRequest)):
        await client.request("GET", kinds.CONFIG_MAP.path(None), params={"limit": "1", "continue": "nonsense"})


async def test_an_object_of_a_megabyte_comes_through_a_watch(client: Client, hanei_namespace: str) -> None:
    """The largest ConfigMap, on one line."""
    pages = [page async for page in client.list_pages(kinds.CONFIG_MAP, hanei_namespace)]
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("big", big="x" * 1_000_000))
    since = pages[-1].resource_version
    async with (
        asyncio.timeout(20),
        aclosing(client.watch(kinds.CONFIG_MAP, hanei_namespace, resource_version=since, timeout=30)) as events,
    ):
        async for event in events:
            if orjson.loads(event.object)["metadata"].get("name") == "big":
                assert len(event.object) > 1_000_000
                break


async def test_an_object_over_the_limit_is_too_large_or_invalid(client: Client, hanei_namespace: str) -> None:
    """Both say that trying again cannot help."""
    with pytest.raises((errors.TooLarge, errors.Invalid)):
        await _apply(client, hanei_namespace, config_map("big", big="x" * 1_200_000))
    with pytest.raises(errors.TooLarge):
        await _apply(client, hanei_namespace, config_map("big", big="x" * 4_000_000))


# Writes


async def test_an_apply_of_version_1_creates_only(client: Client, hanei_namespace: str) -> None:
    """The design's create: made if absent, a conflict if present, whoever made it."""
    only_new = config_map("one", {"resourceVersion": "1"}, a="1")
    made = await _apply(client, hanei_namespace, only_new)
    assert made["data"] == {"a": "1"}
    for force in (False, True):
        with pytest.raises(errors.Conflict):
            await _apply(client, hanei_namespace, only_new, force=force)
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("foreign"))
    with pytest.raises(errors.Conflict):
        await _apply(client, hanei_namespace, config_map("foreign", {"resourceVersion": "1"}, a="1"), force=True)


async def test_an_apply_with_a_uid_changes_this_object_only(client: Client, hanei_namespace: str) -> None:
    """The design's change: 409 if it is gone, refused if another has its name."""
    uid = (await _apply(client, hanei_namespace, config_map("one", a="1")))["metadata"]["uid"]
    changed = await _apply(client, hanei_namespace, config_map("one", {"uid": uid}, a="2"), force=True)
    assert changed["data"] == {"a": "2"}
    await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one", uid=uid)
    with pytest.raises(errors.Conflict):
        await _apply(client, hanei_namespace, config_map("one", {"uid": uid}, a="3"), force=True)
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"))
    with pytest.raises(errors.Invalid):
        await _apply(client, hanei_namespace, config_map("one", {"uid": uid}, a="3"), force=True)
    found = orjson.loads(await client.get(kinds.CONFIG_MAP, hanei_namespace, "one"))
    assert "a" not in found.get("data", {})


async def test_the_same_apply_again_changes_nothing(client: Client, hanei_namespace: str) -> None:
    """The resourceVersion stays, so an own write that changed nothing wakes nobody."""
    first = await _apply(client, hanei_namespace, config_map("one", a="1"), force=True)
    second = await _apply(client, hanei_namespace, config_map("one", a="1"), force=True)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_field_of_another_manager_is_a_conflict_unless_forced(client: Client, hanei_namespace: str) -> None:
    """The conflict names the field."""
    await _apply(client, hanei_namespace, config_map("one", a="1"), field_manager="other")
    with pytest.raises(errors.Conflict) as caught:
        await _apply(client, hanei_namespace, config_map("one", a="2"))
    assert any("data.a" in field for field, _ in caught.value.details)
    assert (await _apply(client, hanei_namespace, config_map("one", a="2"), force=True))["data"] == {"a": "2"}


async def test_a_dry_run_says_what_would_be_and_does_nothing(client: Client, hanei_namespace: str) -> None:
    """For every kind of write that has one."""
    tried = await _apply(client, hanei_namespace, config_map("one", a="1"), dry_run=True)
    assert tried["data"] == {"a": "1"}
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"), dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(kinds.CONFIG_MAP, hanei_namespace, "one")
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"))
    patch = {"data": {"a": "b"}}
    answer = await client.merge_patch(kinds.CONFIG_MAP, hanei_namespace, "one", patch, dry_run=True)
    assert orjson.loads(answer)["data"] == {"a": "b"}
    assert "data" not in orjson.loads(await client.get(kinds.CONFIG_MAP, hanei_namespace, "one"))


async def test_an_unknown_field_is_refused(client: Client, hanei_namespace: str) -> None:
    """Strict validation names it, instead of dropping it in silence."""
    body = {**config_map("one"), "contents": {"a": "1"}}
    with pytest.raises((errors.BadRequest, errors.Invalid, errors.ServerError), match="contents"):
        await _apply(client, hanei_namespace, body)


async def test_a_patch_with_a_test_is_applied_only_if_it_holds(client: Client, hanei_namespace: str) -> None:
    """JSON patch with a precondition."""
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one", a="1"))

    def patch(before: str) -> list[dict[str, str]]:
        return [
            {"op": "test", "path": "/data/a", "value": before},
            {"op": "replace", "path": "/data/a", "value": "2"},
        ]

    answer = await client.json_patch(kinds.CONFIG_MAP, hanei_namespace, "one", patch("1"))
    assert orjson.loads(answer)["data"] == {"a": "2"}
    with pytest.raises(errors.Invalid):
        await client.json_patch(kinds.CONFIG_MAP, hanei_namespace, "one", patch("1"))


async def test_f26_a_delete_takes_only_the_object_that_was_meant(client: Client, hanei_namespace: str) -> None:
    """Another uid or version is a conflict; a missing one is not found."""
    made = orjson.loads(await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one")))
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one", resource_version="1")
    await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one", uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.delete(kinds.CONFIG_MAP, hanei_namespace, "one")


async def test_a_name_that_is_taken_already_exists(client: Client, hanei_namespace: str) -> None:
    """A type of its own, which is a conflict too."""
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"))
    with pytest.raises(errors.AlreadyExists):
        await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("one"))


async def test_a_refused_object_names_its_fields(client: Client, hanei_namespace: str) -> None:
    """Details carry field and message."""
    with pytest.raises(errors.Invalid) as caught:
        await _apply(client, hanei_namespace, config_map("one", {"labels": {"a": "not a label!"}}))
    assert caught.value.details[0][0] == "metadata.labels"


async def test_an_unknown_kind_is_not_found(client: Client, hanei_namespace: str) -> None:
    """A CRD that is not installed."""
    unknown = kinds.Kind("nowhere.example", "v1", "Thing", "things")
    with pytest.raises(errors.NotFound):
        _ = [page async for page in client.list_pages(unknown, hanei_namespace)]


async def test_a_namespace_that_ends_is_its_own_error(client: Client, hanei_namespace: str) -> None:
    """Nothing can be made there, and it is no question of rights."""
    finalizer = {"finalizers": ["hanei.dev/test"]}
    await client.create(kinds.CONFIG_MAP, hanei_namespace, config_map("held", finalizer))
    await client.delete(kinds.NAMESPACE, None, hanei_namespace)
    with pytest.raises(errors.NamespaceTerminating):
        await _apply(client, hanei_namespace, config_map("late"))
    await client.merge_patch(kinds.CONFIG_MAP, hanei_namespace, "held", {"metadata": {"finalizers": None}})


async def test_the_server_describes_itself(client: Client) -> None:
    """Version and schemas."""
    assert (await client.version()).startswith("v1.")
    assert "apis/apps/v1" in orjson.loads(await client.discover("/openapi/v3"))["paths"]
