"""A canary in every Secret is found nowhere. Rows SEC04, SEC11, SEC12, SEC14, SEC16 and SEC17 of `tests/data/security.tsv`."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from hanei import kinds
from hanei.operator.rights import granted_rules
from hanei.plan.explore import sample_of
from tests.system import world as w
from tests.system.shopping import rotate

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SECRET = "autolock-auth-db-secret"  # the sample's
KEYS = ("MARIADB_DATABASE", "MARIADB_PASSWORD", "MARIADB_ROOT_PASSWORD", "MARIADB_USER", "password")
SEEN = (
    kinds.DEPLOYMENT, kinds.STATEFUL_SET, kinds.SERVICE, kinds.INGRESS, kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT,
    kinds.ROLE, kinds.ROLE_BINDING, kinds.CONTROLLER_REVISION, kinds.REPLICA_SET, kinds.POD, kinds.EVENT, kinds.LEASE,
    w.autolock.kind,
)  # fmt: skip


def forms(value: str) -> Iterator[str]:
    """A value in every common encoding, and its plain hashes."""
    raw = value.encode()
    yield value
    yield quote(value, safe="")
    yield raw.hex()
    yield json.dumps(value)[1:-1]
    for shift in range(3):  # base64 of the value wherever it stands in a longer text
        yield base64.b64encode(b"x" * shift + raw).decode().rstrip("=")[4 if shift else 0 : -4]
    for name in ("md5", "sha1", "sha256"):
        yield hashlib.new(name, raw).hexdigest()
        yield base64.b64encode(hashlib.new(name, raw).digest()).decode()


def test_sec11_sec12_sec14_sec17_a_canary_in_every_secret_is_found_nowhere(
    world: w.World, operator: w.Operator
) -> None:
    """Through a create, a rotation, a refused child and a restart of the operator: objects, events, log and audit."""
    canaries = [f"canary~{secrets.token_hex(12)}/{key}" for key in KEYS]
    rotated = f"canary~{secrets.token_hex(12)}/rotated"
    data = dict(zip(KEYS, canaries, strict=True))
    world.create(kinds.SECRET, {"metadata": {"name": SECRET}, "stringData": data})
    mark = w.audit_mark(world.cluster)
    world.resource(w.autolock, "a", sample_of(w.autolock))
    world.ready(w.autolock, "a")
    before = world.get(kinds.DEPLOYMENT, "a-main")["metadata"]["generation"]
    world.patch(kinds.SECRET, SECRET, {"stringData": {"MARIADB_PASSWORD": rotated}})
    w.wait_for("the rotation", lambda: world.get(kinds.DEPLOYMENT, "a-main")["metadata"]["generation"] > before)
    world.patch(w.autolock.kind, "a", {"spec": {"webapp": {"ingress": {"host": "two..dots"}}}})
    world.condition_becomes(w.autolock, "a", "Stalled", "Refused")
    assert operator.stop() == 0
    operator.start()
    world.patch(w.autolock.kind, "a", {"spec": {"webapp": {"ingress": {"host": "one.dot"}}}})
    world.ready(w.autolock, "a")
    texts = {kind.kind: json.dumps(world.list(kind)) for kind in SEEN}
    texts["log"] = operator.log.read_text()
    texts["metrics"] = metrics(operator)
    texts["audit"] = json.dumps(w.audited(world.cluster, since=mark))
    assert all(len(text) > 2 for name, text in texts.items() if name != "Event")
    found = [
        (name, form[:20])
        for value in (*canaries, rotated)
        for form in forms(value)
        for name, text in texts.items()
        if form in text
    ]
    assert found == []
    in_secret = json.dumps(world.get(kinds.SECRET, SECRET))
    assert any(form in in_secret for form in forms(rotated)), "the search itself finds nothing"


def metrics(operator: w.Operator) -> str:
    """What /metrics says; its port stands in the log."""
    ports = [line["port"] for line in operator.lines() if "port" in line]
    if not ports:
        return "none"
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_sec04_what_is_granted_is_used_and_nothing_else_is_asked(world: w.World, operator: w.Operator) -> None:
    """A life with every feature: rights granted against rights used, from the audit log.

    Rights held only so as to grant them to a component's account are told apart; so is `get` of the resource, which is
    used when others delete an object of it, as here.
    """
    world.create(kinds.SECRET, {"metadata": {"name": SECRET}, "stringData": dict.fromkeys(KEYS, "x")})
    mark = w.audit_mark(world.cluster)
    world.resource(w.autolock, "a", sample_of(w.autolock))
    world.resource(w.ochacafe, "c", {"size": 1, "image": "nginx"})
    world.ready(w.autolock, "a")
    world.ready(w.ochacafe, "c")
    rotate(world, SECRET, "y")
    for name in ("a-main", "c"):
        world.delete(kinds.DEPLOYMENT, name)
        w.wait_for("it to come back", lambda name=name: world.find(kinds.DEPLOYMENT, name))  # type: ignore[misc]
    world.patch(w.autolock.kind, "a", {"spec": {"webapp": {"ingress": {"enabled": False}}}})
    w.wait_for("the Ingress to go", lambda: world.find(kinds.INGRESS, "a-webapp") is None)
    world.ready(w.autolock, "a")
    time.sleep(2.5)  # the Lease is renewed every 2 s
    requests = w.audited(world.cluster, since=mark)
    refused = [one for one in requests if one.get("responseStatus", {}).get("code") == 403]
    assert [f"{one['verb']} {one['objectRef']}" for one in refused] == []
    used = {used_right(one) for one in requests if one.get("objectRef", {}).get("namespace") == world.namespace}
    granted = {
        (group, resource, verb)
        for role in world.list(kinds.ROLE)
        if role["metadata"]["name"] == "hanei-operator"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert used <= granted
    to_grant = {(rule.group, rule.resource, verb) for rule in granted_rules(w.autolock) for verb in rule.verbs}
    unused = {right for right in granted - used - to_grant if right not in AT_START and right not in RARELY}
    assert unused == set()


AT_START = {
    (kind.group, kind.plural, verb)
    for kind in (*SEEN, kinds.SECRET, kinds.HPA, w.ochacafe.kind)
    for verb in ("list", "watch")
} | {("coordination.k8s.io", "leases", "create")}
"""Used before this test begins to look."""
RARELY = {
    (kind.group, kind.plural, verb)
    for kind in (
        kinds.DEPLOYMENT, kinds.STATEFUL_SET, kinds.SERVICE, kinds.INGRESS, kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT,
        kinds.ROLE, kinds.ROLE_BINDING, kinds.CONTROLLER_REVISION,
    )
    for verb in ("get", "delete", "create")
} | {("events.k8s.io", "events", "create"), ("", "secrets", "get"), ("", "secrets", "create")}  # fmt: skip
"""Whose is it (situation S45), what is not wanted any more (S49), the first write, and what is out of the ordinary."""


def used_right(request: dict[str, Any]) -> tuple[str, str, str]:
    place = request.get("objectRef", {})
    resource = place["resource"] + (f"/{place['subresource']}" if place.get("subresource") else "")
    return place.get("apiGroup", ""), resource, request["verb"]
