"""The operator's pure parts: status, patience, records; and that nothing is written once the Lease is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hanei import App, Container, Deployment, Own, Right, Settings, kinds, setting
from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise
from hanei.errors import LeaderLost, SettingsInvalid
from hanei.operator.apply import Outcome, Writer
from hanei.operator.patience import FIGHT_AFTER, Patience
from hanei.operator.records import given_up, record_body, record_name, recorded_spec
from hanei.operator.resource import Resource
from hanei.operator.rights import policies
from hanei.operator.status import Report, phase, ready, status_of
from hanei.plan.model import Blocked, Plan, Verb, Write
from hanei.plan.observed import Observed, ObservedObject, ObservedPod, Record, WorkloadStatus
from hanei.render.render import own_of, render
from ochacafe.app import app

SPEC = normalise(spec_schema(app), {"size": 2, "image": "nginx"})
OWN = own_of(app, "cafe", "default", "u1")
RENDERED = render(app, app.parse(SPEC), OWN)
HASH = RENDERED["cafe"].hash
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def resource(status: dict[str, Any] | None = None, generation: int = 1) -> Resource:
    return Resource(OWN, generation, "1", SPEC, status or {})


def workload(**counts: int) -> ObservedObject:
    found: dict[str, Any] = {"observed_generation": 1, "replicas": 2, "updated": 2, "ready": 2, "available": 2} | counts
    return ObservedObject(
        kinds.DEPLOYMENT,
        "cafe",
        "d1",
        "1",
        1,
        "cafe",
        "workload",
        wanted_replicas=2,
        template_hash=HASH,
        owner_uid="u1",
        status=WorkloadStatus(**found),
    )


def seen(present: ObservedObject) -> Observed:
    pods = tuple(ObservedPod(f"p{number}", f"p{number}", "cafe", HASH, True, workload="cafe") for number in range(2))
    return Observed("u1", {("Deployment", "cafe"): present}, pods)


def report(**fields: Any) -> Report:
    given: dict[str, Any] = {"rendered": RENDERED, "observed": seen(workload()), "settings": app.parse(SPEC)}
    return Report(**(given | {"scale_component": "cafe"} | fields))


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_a_status_that_says_the_same_is_the_same() -> None:
    """A transition time moves with the value only: nothing is written a minute later."""
    first = status_of(app, resource(), report(), NOW)
    assert ready(first)
    assert first["nodes"] == ["p0", "p1"]
    assert (first["replicas"], first["selector"]) == (
        2,
        "hanei.dev/app=ochacaves.ochacafe.oracle.com,hanei.dev/workload=cafe",
    )
    assert status_of(app, resource(first), report(), LATER) == first
    busy = status_of(app, resource(first), report(observed=seen(workload(updated=1))), LATER)
    assert phase(busy) != phase(first)
    assert {one["lastTransitionTime"] for one in busy["conditions"] if one["type"] in ("Ready", "Reconciling")} == {
        LATER
    }
    assert next(one for one in busy["conditions"] if one["type"] == "Stalled")["lastTransitionTime"] == NOW


CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[str, str]]]] = {
    "ready": ({}, {"Ready": ("True", "Ready"), "Reconciling": ("False", "NotReconciling"), "Stalled": ("False", "NotStalled")}),
    "under way": ({"observed": seen(workload(updated=1))}, {"Ready": ("False", "Updating"), "Reconciling": ("True", "Updating")}),
    "a name is taken": ({"blocked": [Blocked("cafe", "Stalled", "NameTaken", "taken")]}, {"Ready": ("False", "NameTaken"), "Stalled": ("True", "NameTaken")}),
    "waiting": ({"blocked": [Blocked("cafe", "Waiting", "Terminating", "going")]}, {"Ready": ("False", "Terminating"), "Stalled": ("False", "NotStalled")}),
    "invalid": ({"invalid": SettingsInvalid((("spec.size", "bad"),))}, {"Ready": ("False", "SettingsInvalid"), "Stalled": ("True", "SettingsInvalid")}),
    "suspended": ({"suspended": True}, {"Ready": ("False", "Suspended"), "Stalled": ("False", "NotStalled")}),
    "the server fails": ({"failure": "503"}, {"Ready": ("False", "Retrying"), "Reconciling": ("True", "Retrying")}),
    "nothing accepted": ({"rendered": None}, {"Ready": ("False", "NothingAccepted"), "Stalled": ("True", "NothingAccepted")}),
    "an old CRD": ({"outdated": ("size",)}, {"Ready": ("True", "Ready"), "SchemaCurrent": ("False", "SchemaOutdated")}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_conditions_tell_how_it_is(case: str) -> None:
    """Each situation has its reason."""
    fields, expected = CASES[case]
    found = conditions(status_of(app, resource(), report(**fields), NOW))
    assert {key: found[key] for key in expected} == expected


def change(drift: tuple[str, ...] = ("spec.replicas",), body: Any = None) -> Write:
    return Write(Verb.CHANGE, kinds.DEPLOYMENT, "cafe", "cafe", body or {"a": 1}, "d1", "1", "change", drift)


def test_s35_a_fight_over_one_field_is_slowed_down_and_others_are_not() -> None:
    """Three reverts go at once; the fourth waits, longer each time; another field is reverted at once."""
    patience, plan = Patience(), Plan(writes=(change(),))
    for number in range(FIGHT_AFTER):
        allowed, waits = patience.allow("u1", plan, float(number))
        assert (len(allowed), waits) == (1, [])
        patience.learn("u1", plan, Outcome(written=[plan.writes[0]]), float(number))
    allowed, waits = patience.allow("u1", plan, 5.0)
    assert (allowed, waits[0].reason) == ([], "Contested")
    assert patience.allow("u1", Plan(writes=(change(("spec.paused",)),)), 5.0)[1] == []
    assert len(patience.allow("u1", plan, 13.0)[0]) == 1
    patience.learn("u1", plan, Outcome(written=[plan.writes[0]]), 13.0)
    assert list(patience.next_in("u1", 13.0)) == [20.0]
    assert len(patience.allow("u1", plan, 10_000.0)[0]) == 1


def test_what_the_server_refused_is_not_sent_again_until_it_differs() -> None:
    """Same content: held for minutes. Other content: sent."""
    patience, plan = Patience(), Plan(writes=(change(()),))
    patience.learn("u1", plan, Outcome(blocked=[Blocked("cafe", "Stalled", "Refused", "no")]), 0.0)
    assert patience.allow("u1", plan, 10.0)[1][0].message == "no"
    assert len(patience.allow("u1", Plan(writes=(change((), {"a": 2}),)), 10.0)[0]) == 1
    assert len(patience.allow("u1", plan, 1000.0)[0]) == 1


async def test_nothing_is_written_once_the_lease_is_lost() -> None:
    """One component or several: `LeaderLost`, and the client is never asked."""
    nobody: Any = None
    writer = Writer(nobody, nobody, lambda: False)
    other = replace(change(), component="other")
    for writes in ((change(),), (change(), other)):
        with pytest.raises(LeaderLost):
            await writer.carry_out(Plan(writes=writes), OWN)


def test_a_record_holds_what_was_accepted_and_nothing_that_scales() -> None:
    """The path of `scale=` and `suspend` are in no revision: scaling makes no record."""
    assert recorded_spec(app, {**SPEC, "suspend": True}) == {"image": "nginx"}
    more = render(app, app.parse({**SPEC, "size": 9}), OWN)
    assert record_name(OWN, {"image": "nginx"}, RENDERED) == record_name(OWN, {"image": "nginx"}, more)
    body = record_body(app, OWN, {"image": "nginx"}, RENDERED, [workload()], 3)
    assert (body["revision"], body["data"]["hashes"]) == (3, {"cafe": HASH})
    assert body["data"]["inventory"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "plural": "deployments", "name": "cafe", "uid": "d1"}
    ]


def test_kinds_that_an_app_gave_up_are_found_in_the_inventory_but_never_volume_claims() -> None:
    """No cache has them: they are deleted by the uid that was recorded."""
    record = Record(
        "r", "u", 1, {}, {}, ((kinds.CRON_JOB, "a", "u1"), (kinds.DEPLOYMENT, "b", "u2"), (kinds.PVC, "c", "u3"))
    )
    assert given_up([record], frozenset({"Deployment"})) == [(kinds.CRON_JOB, "a", "u1")]


def test_a_page_may_not_reach_an_image_inside_a_list_nor_a_secrets_name() -> None:
    """A list or map that holds a guarded setting is guarded as a whole."""

    class Item(Settings):
        name: str = setting("a")
        image: str = setting("nginx", klass="image")

    class Spec(Settings):
        free: str = setting("a")
        items: list[Item] = setting([])
        more: dict[str, Item] = setting({})
        secret: str = setting("s", secret=True)

    paged = App(Spec, group="p.example.com", version="v1", kind="Paged", plural="pageds")

    @paged.component
    def page(spec: Spec, own: Own) -> Deployment:
        right = Right(group=own.group, resources=(own.plural,), verbs=("patch",), names=(own.name,))
        return Deployment(containers=(Container(image="nginx"),), rights=(right,))

    told = [one["message"].split()[0] for one in policies(paged)[0]["spec"]["validations"]]
    assert {"spec.items", "spec.more", "spec.secret"} <= set(told)
    assert "spec.free" not in told
