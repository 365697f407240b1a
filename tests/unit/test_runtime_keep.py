"""What of an object stays in the cache."""

from __future__ import annotations

import orjson
import pytest

from hanei import kinds
from hanei.runtime.keep import keep, keep_all

RAW = orjson.dumps(
    {
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "labels": {"a": "b"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "Y", "name": "y", "uid": "2", "controller": True},
            ],
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}},
                {"manager": "hanei", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}, "time": "now"},
            ],
        },
        "spec": {"nodeName": "n1", "from": {"x": 1}, "big": "x" * 10_000},
        "status": {"phase": "Running"},
    }
)


def test_by_default_everything_stays_but_only_our_managed_fields() -> None:
    """The decoded metadata, and the object as it came."""
    item = keep_all(kinds.POD)(RAW)
    assert (item.key, item.meta.generation, item.meta.labels) == (("ns", "web"), 3, {"a": "b"})
    assert [entry.manager for entry in item.meta.managedFields] == ["hanei"]
    assert bytes(item.meta.managedFields[0].fieldsV1) == b'{"f:data":{"f:a":{}}}'
    assert item.raw is RAW
    assert item.meta.controller is not None
    assert item.meta.controller.name == "y"


def test_all_managers_stay_when_asked_for() -> None:
    """To tell who set what."""
    item = keep_all(kinds.POD, managers=None)(RAW)
    assert [entry.manager for entry in item.meta.managedFields] == ["kubectl", "hanei"]


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ((), {}),
        (("status.phase", "spec.nodeName"), {"status": {"phase": "Running"}, "spec": {"nodeName": "n1"}}),
        (("spec.from",), {"spec": {"from": {"x": 1}}}),
        (("status",), {"status": {"phase": "Running"}}),
        (("status.absent", "absent.x"), {"status": {}}),
    ],
)
def test_chosen_paths_stay_and_nothing_else(paths: tuple[str, ...], wanted: object) -> None:
    """As far as the object has them; words of Python are no obstacle."""
    item = keep(kinds.POD, *paths)(RAW)
    assert orjson.loads(item.raw) == wanted
    assert item.meta.name == "web"
    assert bytes(item.meta.managedFields[0].fieldsV1) == b'{"f:data":{"f:a":{}}}'


def test_an_object_with_next_to_nothing_is_kept_too() -> None:
    """Fields that the server leaves out have their empty values."""
    item = keep_all(kinds.POD)(b'{"metadata":{"name":"x"}}')
    assert (item.key, item.meta.labels, item.meta.deletionTimestamp) == (("", "x"), {}, None)
