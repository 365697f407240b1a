"""The status of a resource: pure, from what was observed and what is in the way. Written in one place, `reconcile`.

Conditions follow kstatus: `Ready`, `Reconciling`, `Stalled`. A transition time changes only with the condition's value,
so a status that says the same is the same, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hanei.app.application import App, Seen, SeenPod
from hanei.plan.observed import Observed
from hanei.plan.readiness import Progress, progress

if TYPE_CHECKING:
    from hanei.errors import SettingsInvalid
    from hanei.operator.resource import Resource
    from hanei.plan.model import Blocked
    from hanei.render.model import Rendered, RenderedComponent

MESSAGE_LIMIT = 1000
"""Characters of a condition's message; Kubernetes allows 32,768, people read less."""


@dataclass(slots=True)
class Report:
    """What a reconcile found out, filled on its way and turned into the status at its end."""

    rendered: Rendered | None = None
    observed: Observed = field(default_factory=Observed)
    settings: Any = None
    invalid: SettingsInvalid | None = None
    blocked: list[Blocked] = field(default_factory=list)
    revision: str = ""
    last_good: str = ""
    failure: str = ""
    """An error of the API server that is being retried."""
    suspended: bool = False
    scale_component: str = ""
    outdated: tuple[str, ...] = ()
    """Fields that the cluster's CRD does not know."""
    missing_secrets: tuple[str, ...] = ()


def status_of(app: App[Any], resource: Resource, report: Report, now: str) -> dict[str, Any]:
    """The whole status, as JSON values. `now` is an RFC 3339 time for conditions that change."""
    rows = [_row(component, report) for component in report.rendered.components] if report.rendered else []
    conditions = _conditions(resource, report, rows)
    before = {one.get("type"): one for one in resource.status.get("conditions") or () if isinstance(one, Mapping)}
    status: dict[str, Any] = {
        "conditions": [_dated(one, before.get(one["type"]), now, resource.generation) for one in conditions],
        "observedGeneration": resource.generation,
        "components": [{key: item for key, item in row.items() if item != ""} for row in rows],
    }
    if report.revision:
        status["revision"] = report.revision
    if report.last_good:
        status["lastGoodRevision"] = report.last_good
    if app.scale and report.rendered is not None and report.scale_component:
        status |= _scale(report.rendered[report.scale_component], report.observed)
    return status | app.status_of(_seen(report))


def ready(status: Mapping[str, Any]) -> bool:
    """Whether a status says Ready."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))


def phase(status: Mapping[str, Any]) -> Any:
    """The part of a status whose change is written at once; the rest is counts."""
    conditions = [(one.get("type"), one.get("status"), one.get("reason")) for one in status.get("conditions") or ()]
    states = [(one.get("name"), one.get("state"), one.get("wantedHash")) for one in status.get("components") or ()]
    return conditions, states, status.get("observedGeneration"), status.get("revision"), status.get("lastGoodRevision")


def _row(component: RenderedComponent, report: Report) -> dict[str, Any]:
    found = _progress(component, report)
    workload = component.workload
    present = report.observed.objects.get(workload.ref) if workload is not None else None
    row: dict[str, Any] = {
        "name": component.name,
        "workload": f"{workload.kind}/{workload.name}" if workload is not None else "",
        "wantedHash": component.hash,
        "liveHash": found.live_hash,
        "pods": {"wanted": found.wanted, "updated": found.updated, "ready": found.ready},
        "state": found.state,
        "reason": found.reason,
        "waitsFor": found.waits_for,
    }
    if present is None and workload is None and found.done:
        row["pods"] = ""
    return row


def _progress(component: RenderedComponent, report: Report) -> Progress:
    """The component's progress, overruled by what is in its way."""
    found = (
        progress(component, report.observed) if component.error is None else Progress(False, "Stalled", "RenderFailed")
    )
    if report.suspended and not found.done:
        return _with(found, "Suspended", "Suspended", "spec.suspend to be taken away")
    for one in sorted(report.blocked, key=lambda item: item.state != "Stalled"):
        if one.component == component.name:
            return _with(found, one.state, one.reason, one.message)
    missing = sorted({ref.name for ref in component.secrets} & set(report.missing_secrets))
    unknown = sorted({ref.name for ref in component.unknown_secrets})
    if (missing or unknown) and not found.waits_for:
        what = (
            f"Secret {', '.join(missing)}, which does not exist"
            if missing
            else f"a key of Secret {', '.join(unknown)} that can be read"
        )
        return Progress(
            found.done, found.state, found.reason, what, found.wanted, found.updated, found.ready, found.live_hash
        )
    return found


def _with(found: Progress, state: str, reason: str, waits_for: str) -> Progress:
    return Progress(False, state, reason, waits_for, found.wanted, found.updated, found.ready, found.live_hash)


def _conditions(resource: Resource, report: Report, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    stalled = [row for row in rows if row["state"] == "Stalled"]
    waiting = [
        row
        for row in rows
        if row["state"] not in ("Ready", "Absent", "Stalled") or (row["state"] == "Absent" and row["waitsFor"])
    ]
    loose = [one for one in report.blocked if one.component not in {row["name"] for row in rows}]
    if report.invalid is not None:
        kept = "; the last accepted settings stay in force" if report.revision else ""
        return _three(("False", "SettingsInvalid", f"{report.invalid.message}{kept}"), stalled=True)
    if report.suspended:
        return _three(("False", "Suspended", "spec.suspend is true: Hanei leaves everything as it is"))
    if stalled or loose:
        reason = stalled[0]["reason"] if stalled else loose[0].reason
        return _three(("False", reason, _sentence(stalled) or loose[0].message), stalled=True, busy=bool(waiting))
    if report.failure:
        return _three(("False", "Retrying", report.failure), busy=True)
    if waiting:
        return _three(("False", waiting[0]["reason"], _sentence(waiting)), busy=True)
    if report.rendered is None:
        return _three(("False", "NothingAccepted", "no settings were ever accepted"), stalled=True)
    found = _three(("True", "Ready", "everything runs with these settings"))
    if report.outdated:
        listed = ", ".join(report.outdated[:5])
        found.append(
            {
                "type": "SchemaCurrent",
                "status": "False",
                "reason": "SchemaOutdated",
                "message": f"the cluster's CRD does not know {listed}: apply `hanei crd` again",
            }
        )
    return found


def _three(ready_condition: tuple[str, str, str], *, stalled: bool = False, busy: bool = False) -> list[dict[str, Any]]:
    status, reason, message = ready_condition
    message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"

    def one(kind: str, true: bool) -> dict[str, Any]:
        found = {"type": kind, "status": "True" if true else "False", "reason": reason if true else f"Not{kind}"}
        return found | ({"message": message} if true else {})

    return [
        {"type": "Ready", "status": status, "reason": reason, "message": message},
        one("Reconciling", busy),
        one("Stalled", stalled),
    ]


def _sentence(rows: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"{row['name']}: {row['waitsFor'] or row['reason']}" for row in rows)


def _dated(condition: dict[str, Any], before: Mapping[str, Any] | None, now: str, generation: int) -> dict[str, Any]:
    same = before is not None and before.get("status") == condition["status"]
    when = before.get("lastTransitionTime", now) if same and before is not None else now
    return condition | {"lastTransitionTime": when, "observedGeneration": generation}


def _scale(component: RenderedComponent, observed: Observed) -> dict[str, Any]:
    present = observed.objects.get(component.workload.ref) if component.workload is not None else None
    selector = ",".join(f"{key}={value}" for key, value in sorted(component.selector.items()))
    return {"replicas": present.status.replicas if present is not None else 0, "selector": selector}


def _seen(report: Report) -> Seen:
    pods = tuple(
        SeenPod(pod.name, pod.component, pod.ready, pod.hash) for pod in report.observed.pods if not pod.deleting
    )
    return Seen(pods, report.settings)
