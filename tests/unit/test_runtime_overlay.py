"""Own writes over a cache that has not caught up."""

from __future__ import annotations

import asyncio

import pytest

from hanei import kinds
from hanei.runtime.overlay import Overlay
from hanei.runtime.store import Cached, ObjectMeta, Store

pytestmark = pytest.mark.looptime


def item(version: int, name: str = "web", uid: str = "u1", *, deleting: bool = False, app: str = "x") -> Cached:
    meta = ObjectMeta(
        name=name,
        namespace="ns",
        uid=uid,
        resourceVersion=str(version),
        labels={"app": app},
        deletionTimestamp="now" if deleting else None,
    )
    return Cached(kinds.POD, meta, b"{}")


def store(*items: Cached, version: int = 10) -> Store:
    made = Store({"app": lambda found: [found.meta.labels["app"]]})
    made.replace(items, version)
    return made


def version(overlay: Overlay, name: str = "web") -> int | None:
    found = overlay.get("ns", name)
    return int(found.meta.resourceVersion) if found else None


async def test_s31_a_write_is_seen_at_once_and_until_the_cache_is_as_new() -> None:
    """The second reconcile does not act on a stale cache."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_write(item(20))
    assert version(overlay) == 20
    cache.upsert(item(15))
    cache.advance(15)
    assert version(overlay) == 20
    cache.upsert(item(25))
    cache.advance(25)
    assert version(overlay) == 25


async def test_a_creation_is_found_by_name_by_index_and_in_all() -> None:
    """As if the cache had it."""
    overlay = Overlay(store(item(5, "old")))
    overlay.record_write(item(20, "new"))
    assert version(overlay, "new") == 20
    assert [found.meta.name for found in overlay.by_index("app", "x")] == ["old", "new"]
    assert len(overlay) == 2


async def test_a_write_that_moves_an_object_to_another_index_value_moves_it() -> None:
    """It is found under the new value only."""
    overlay = Overlay(store(item(5, app="x")))
    overlay.record_write(item(20, app="y"))
    assert overlay.by_index("app", "x") == ()
    assert len(overlay.by_index("app", "y")) == 1


async def test_a_creation_deleted_by_somebody_else_is_not_seen_for_ever() -> None:
    """Once the cache has passed our version, what it says counts, also that there is nothing."""
    cache = store()
    overlay = Overlay(cache)
    overlay.record_write(item(20))
    cache.upsert(item(20))
    cache.remove(("ns", "web"), "u1")
    cache.advance(21)
    assert version(overlay) is None


async def test_a_deletion_hides_this_very_object_only() -> None:
    """Another of the same name is shown."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_delete(kinds.POD, ("ns", "web"), "u1")
    assert version(overlay) is None
    assert overlay.by_index("app", "x") == overlay.all() == ()
    cache.upsert(item(25, uid="u2"))
    assert version(overlay) == 25


async def test_an_object_that_waits_for_finalizers_is_shown_again() -> None:
    """Deleted by us, but still there: whoever looks must see that its name is not free."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_delete(kinds.POD, ("ns", "web"), "u1")
    cache.upsert(item(25, deleting=True))
    assert version(overlay) == 25


async def test_a_creation_after_our_own_deletion_is_seen() -> None:
    """Replace: delete, then make anew."""
    overlay = Overlay(store(item(5)))
    overlay.record_delete(kinds.POD, ("ns", "web"), "u1")
    overlay.record_write(item(30, uid="u2"))
    assert version(overlay) == 30


async def test_a_deletion_after_our_own_creation_is_seen() -> None:
    """What we wrote is gone from the view with it."""
    overlay = Overlay(store())
    overlay.record_write(item(20))
    overlay.record_delete(kinds.POD, ("ns", "web"), "u1")
    assert version(overlay) is None


async def test_nothing_is_believed_longer_than_its_life() -> None:
    """A watch that stopped must not keep our picture of the world for ever."""
    overlay = Overlay(store(item(5)), life=60)
    overlay.record_write(item(20))
    overlay.record_delete(kinds.POD, ("ns", "other"), "u9")
    await asyncio.sleep(59)
    assert version(overlay) == 20
    await asyncio.sleep(2)
    assert version(overlay) == 5


async def test_a_list_older_than_the_write_does_not_hide_it() -> None:
    """A list that began before the write and ended after it."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_write(item(20))
    cache.replace([item(5)], 12)
    assert version(overlay) == 20
    cache.replace([item(20)], 22)
    assert version(overlay) == 20


async def test_a_restored_server_ends_everything() -> None:
    """Its numbers cannot be compared with ours any more."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_write(item(20))
    overlay.record_delete(kinds.POD, ("ns", "other"), "u9")
    cache.replace([item(3)], 4)
    assert version(overlay) == 3
    overlay.record_write(item(6))
    assert version(overlay) == 6


async def test_a_write_that_changed_nothing_is_no_entry() -> None:
    """The server answers with the version that the cache has."""
    cache = store(item(5))
    overlay = Overlay(cache)
    overlay.record_write(item(5))
    cache.remove(("ns", "web"), "u1")
    assert version(overlay) is None
