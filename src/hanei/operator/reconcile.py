"""The reconcile of one resource, always in this order:

get from cache → deleting? → suspended? → gather → render → plan → apply → record → status, once, on every path.

Called by the controller with a key. It decides nothing itself: gather reads, plan decides, apply writes. Level-triggered:
it asks what should be and what is, never what happened. The only memory between passes is about patience (how often
somebody reverted us, what the server refused), and losing it costs nothing but that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise
from hanei.errors import HaneiError, LeaderLost, SettingsInvalid
from hanei.kube.errors import Conflict, KubeError, NotFound
from hanei.observe.logs import get_logger
from hanei.operator import project
from hanei.operator.gather import gather, with_named
from hanei.operator.patience import Patience
from hanei.operator.records import given_up, inventory, record_body, record_name, recorded_spec, with_scale
from hanei.operator.resource import Resource, lives, resource_of
from hanei.operator.status import Report, phase, ready, status_of
from hanei.plan.decide import Question, decide
from hanei.render.render import NO_SECRETS, render
from hanei.runtime.controller import Key, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.app.application import App
    from hanei.kinds import Kind
    from hanei.kube.client import Client
    from hanei.operator.apply import Outcome, Writer
    from hanei.operator.events import Recorder
    from hanei.operator.gather import Caches
    from hanei.operator.secrets import SecretWatch
    from hanei.plan.model import Plan
    from hanei.plan.observed import Observed
    from hanei.render.model import Rendered, SecretsView

log = get_logger(__name__)

COUNTS_EVERY = 1.0
"""Seconds between two writes of a status whose phase is the same."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a reconcile works with; made once per app by `hanei.operator.operator`."""

    app: App[Any]
    client: Client
    caches: Caches
    writer: Writer
    recorder: Recorder
    secrets: SecretWatch | None
    kinds: frozenset[Kind]
    scale_component: str = ""


class Reconciler:
    """Reconciles the resources of one app."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._schema = spec_schema(parts.app)
        self._patience = Patience()
        self._written_at: dict[Key, float] = {}
        self.own_versions: dict[Key, str] = {}
        """resourceVersion of our last status write per resource: its echo is no news."""
        self.bereft: set[Key] = set()
        """Resources of which an object was deleted by others: perhaps by the collector, for the resource is gone too and
        our cache does not show it yet."""
        self.outdated: tuple[str, ...] = ()
        """Fields that the cluster's CRD does not know; set by `hanei.operator.schema`."""

    async def __call__(self, key: Key) -> Result:
        """One pass over one resource."""
        item = self._parts.caches.resource(*key)
        if item is None or item.meta.deletionTimestamp is not None:
            self._forget(key)  # its objects have an owner reference: the cluster collects them
            return Result()
        resource = resource_of(self._parts.app, self._schema, item)
        report = Report(
            suspended=resource.suspended, scale_component=self._parts.scale_component, outdated=self.outdated
        )
        outcome: Outcome | None = None
        lost = False
        try:
            outcome = await self._converge(key, resource, report)
        except (LeaderLost, asyncio.CancelledError):
            lost = True
            raise
        except HaneiError as error:
            report.failure = error.message
            raise
        except Exception as error:
            report.failure = f"unexpected {type(error).__name__}; the operator's log tells more"
            raise
        finally:
            wait = None if lost else await self._status(key, resource, report)  # ⑧ once, on every path
        return self._result(outcome, report, wait)

    async def _converge(self, key: Key, resource: Resource, report: Report) -> Outcome | None:
        """Everything but the status: gather, render, plan, apply, record."""
        parts = self._parts
        report.observed = gather(parts.caches, resource.own)  # ③ what is there
        settings, spec = self._settings(resource, report)
        if settings is None:
            return None
        report.settings = settings
        rendered, view = await self._render(key, resource, settings, report)  # ④ what should be
        report.rendered = rendered
        report.observed = with_named(parts.caches, resource.own, report.observed, rendered)
        if resource.suspended:
            return None
        plan = self._plan(resource, rendered, spec, view, report.observed)  # ⑤ the difference
        plan = await self._patiently(resource, plan, report)
        report.blocked += plan.blocked
        if key in self.bereft:
            if not await lives(parts.client, resource.own):
                return None
            self.bereft.discard(key)
        if plan.writes:
            outcome = await parts.writer.carry_out(plan, resource.own)  # ⑥ the writes
            await self._tell(resource, plan, outcome)
            self._patience.learn(resource.own.uid, plan, outcome, _now())
            report.blocked += outcome.blocked
            report.failure = outcome.retry.message if outcome.retry is not None else ""
            report.observed = with_named(parts.caches, resource.own, gather(parts.caches, resource.own), rendered)
        else:
            outcome = None
        if (outcome is None or outcome.clean) and not rendered.errors and report.invalid is None:
            await self._record(resource, rendered, spec, report)  # ⑦ what was accepted
        return outcome

    async def _tell(self, resource: Resource, plan: Plan, outcome: Outcome) -> None:
        """What was done, in the log: one line per component and effect. What admission made of it, as an event."""
        written = {write.component for write in outcome.written}
        for action in plan.actions:
            if action.component in written:
                log.info(
                    "Applied", resource=resource.own.name, namespace=resource.own.namespace, component=action.component,
                    effect=action.effect.value, reason=action.reason, settings=list(action.settings),
                )  # fmt: skip
        for write, paths in outcome.altered:
            note = f"{write.kind} {write.name}: admission stored another value than ours in {', '.join(paths[:5])}; Hanei leaves it there"
            await self._parts.recorder.say(resource, "Warning", "ChangedByAdmission", note, "Apply")

    def _settings(self, resource: Resource, report: Report) -> tuple[Any, Mapping[str, Any]]:
        """The settings in force: the resource's own, or those last accepted while its own are invalid."""
        accepted = report.observed.accepted
        report.revision = accepted.name if accepted is not None else ""
        report.last_good = next((one.name for one in reversed(report.observed.records) if one.good), "")
        try:
            return self._parts.app.parse(resource.spec), resource.spec
        except SettingsInvalid as error:
            report.invalid = error
        if accepted is None:
            return None, {}
        spec = normalise(self._schema, with_scale(self._parts.app, accepted.spec, resource.spec))
        try:
            return self._parts.app.parse(spec), spec
        except SettingsInvalid:
            return None, {}  # written for an older version of the app: everything stays as it is

    async def _render(
        self, key: Key, resource: Resource, settings: Any, report: Report
    ) -> tuple[Rendered, SecretsView]:
        """Render with what is known of Secrets. Which ones are named is known by rendering only: if they are others
        than last time, they are watched first, and it is rendered again."""
        parts, watch, own = self._parts, self._parts.secrets, resource.own
        fresh = resource.generation != resource.status.get("observedGeneration")
        if watch is None:
            return render(parts.app, settings, own, allowed=parts.kinds, verify=fresh), NO_SECRETS
        live = {item.component: item for item in report.observed.objects.values() if item.kind in kinds.WORKLOADS}
        secret_names = watch.wanted(key)
        while True:
            await watch.ensure(key, secret_names)
            view = watch.view(own.namespace, secret_names, live)
            rendered = render(parts.app, settings, own, view, allowed=parts.kinds, verify=fresh)
            named = frozenset(ref.name for component in rendered.components for ref in component.secrets)
            if named == secret_names:
                break
            secret_names = named
        report.missing_secrets = tuple(sorted(watch.missing(own.namespace, secret_names)))
        return rendered, view

    def _plan(
        self, resource: Resource, rendered: Rendered, spec: Mapping[str, Any], view: SecretsView, observed: Observed
    ) -> Plan:
        app, accepted = self._parts.app, observed.accepted
        return decide(
            Question(
                rendered=rendered, observed=observed, own=resource.own, spec=recorded_spec(app, spec),
                previous=recorded_spec(app, normalise(self._schema, accepted.spec)) if accepted is not None else None,
                render=lambda other: render(app, app.parse(with_scale(app, other, spec)), resource.own, view, allowed=self._parts.kinds),
                managed_fields=resource.managed_fields, scale=app.scale, declared=frozenset(app.components),
            )
        )  # fmt: skip

    async def _patiently(self, resource: Resource, plan: Plan, report: Report) -> Plan:
        """The plan without what must wait: a fight with another writer, or what the server has just refused."""
        allowed, waits = self._patience.allow(resource.own.uid, plan, _now())
        report.blocked += waits
        for write in allowed:
            if write.drift:
                note = f"{write.kind} {write.name}: somebody else changed {', '.join(write.drift[:5])}; Hanei puts it back. Set spec.suspend to true to keep it out of the way"
                await self._parts.recorder.say(resource, "Normal", "Reverted", note, "Revert")
        return plan if len(allowed) == len(plan.writes) else replace(plan, writes=tuple(allowed))

    async def _record(self, resource: Resource, rendered: Rendered, spec: Mapping[str, Any], report: Report) -> None:
        """Keep a record of the accepted settings, once they were carried out; the newest record is the accepted one."""
        parts = self._parts
        if parts.app.history == 0 or not parts.writer.leading():
            return
        own, accepted = resource.own, report.observed.accepted
        wanted = recorded_spec(parts.app, spec)
        name = record_name(own, wanted, rendered)
        if accepted is not None and accepted.name == name:
            report.revision = name
            return
        revision = accepted.revision + 1 if accepted is not None else 1
        kind = kinds.CONTROLLER_REVISION
        known = next((one for one in report.observed.records if one.name == name), None)
        if known is not None:
            raw = await parts.client.merge_patch(
                kind, own.namespace, name, {"metadata": {"uid": known.uid}, "revision": revision}
            )
        else:
            await self._given_up(resource, report)
            body = record_body(parts.app, own, wanted, rendered, inventory(rendered, report.observed), revision)
            body["metadata"]["resourceVersion"] = "1"
            try:
                raw = await parts.client.apply(kind, own.namespace, name, body)
            except Conflict:
                raw = await parts.client.get(kind, own.namespace, name)  # written before, by a process that died since
        parts.caches.wrote(kind, raw)
        report.revision = name

    async def _given_up(self, resource: Resource, report: Report) -> None:
        """Remove what an earlier version of the app made of a kind that it makes no more (found by the inventory)."""
        names = frozenset(kind.kind for kind in self._parts.kinds)
        for kind, name, uid in given_up(report.observed.records[-1:], names):
            try:
                await self._parts.client.delete(kind, resource.own.namespace, name, uid=uid)
            except (NotFound, Conflict):
                continue
            except KubeError as error:
                log.info(
                    "What an earlier version made could not be removed", kind=kind.kind, name=name, error=str(error)
                )

    async def _status(self, key: Key, resource: Resource, report: Report) -> float | None:
        """Write the status if it says something new; returns how long to wait before it may be written."""
        status = status_of(self._parts.app, resource, report, _stamp())
        again = None
        if ready(status) and self._parts.writer.leading() and not await self._good(resource, report, status):
            again = COUNTS_EVERY
        if status == resource.status or not self._parts.writer.leading():
            return again
        now = _now()
        since = now - self._written_at.get(key, 0.0)
        if phase(status) == phase(resource.status) and since < COUNTS_EVERY:
            return COUNTS_EVERY - since
        own = resource.own
        body = {
            "apiVersion": self._parts.app.kind.api_version,
            "kind": own.kind,
            "metadata": {"name": own.name, "namespace": own.namespace, "uid": own.uid},
            "status": status,
        }
        await self._announce(resource, report, status)
        try:
            raw = await self._parts.client.apply(
                self._parts.app.kind, own.namespace, own.name, body, force=True, subresource="status"
            )
        except NotFound:
            return None  # the resource is gone: its own event tells
        except Conflict:
            return COUNTS_EVERY  # gone too, or another one has its name, or somebody was quicker: the next pass sees
        self._written_at[key] = now
        self.own_versions[key] = self._parts.caches.wrote_status(raw).meta.resourceVersion
        return again

    async def _good(self, resource: Resource, report: Report, status: dict[str, Any]) -> bool:
        """Mark the accepted record as good, once: a fact about it that outlives the status, which says so only then.
        False: it could not be marked, and must be tried again."""
        if not report.revision:
            return True
        # Not from what was gathered: this very pass may have written the record.
        found = self._parts.caches.view(kinds.CONTROLLER_REVISION).get(resource.own.namespace, report.revision)
        if found is None:
            return True
        if project.GOOD in found.meta.annotations:
            status["lastGoodRevision"] = report.last_good = report.revision
            return True
        patch = {"metadata": {"uid": found.meta.uid, "annotations": {project.GOOD: "true"}}}
        try:
            raw = await self._parts.client.merge_patch(
                kinds.CONTROLLER_REVISION, resource.own.namespace, found.meta.name, patch
            )
        except KubeError as error:
            log.info("A record could not be marked", record=found.meta.name, error=str(error))
            return False
        self._parts.caches.wrote(kinds.CONTROLLER_REVISION, raw)
        status["lastGoodRevision"] = report.last_good = report.revision
        return True

    async def _announce(self, resource: Resource, report: Report, status: Mapping[str, Any]) -> None:
        """An event when something went wrong that was not wrong before."""
        condition = next(one for one in status["conditions"] if one["type"] == "Ready")
        stalled = next(one for one in status["conditions"] if one["type"] == "Stalled")
        before = {one.get("type"): one for one in resource.status.get("conditions") or ()}
        if stalled["status"] == "True" and before.get("Stalled", {}).get("message") != stalled.get("message"):
            await self._parts.recorder.say(resource, "Warning", condition["reason"], condition["message"])

    def _result(self, outcome: Outcome | None, report: Report, wait: float | None) -> Result:
        if outcome is not None and outcome.retry is not None:
            raise outcome.retry  # the controller backs off
        waits = [wait] if wait is not None else []
        if outcome is not None and outcome.again:
            waits.append(0.2)
        if any(
            one.reason in ("NameTaken", "Terminating", "Contested", "Refused", "NamespaceTerminating")
            for one in report.blocked
        ):
            waits.append(min([10.0, *(self._patience.next_in(report.observed.uid, _now()))]))
        return Result(min(waits)) if waits else Result()

    def _forget(self, key: Key) -> None:
        if self._parts.secrets is not None:
            self._parts.secrets.forget(key)
        self.bereft.discard(key)
        self._written_at.pop(key, None)
        self.own_versions.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
