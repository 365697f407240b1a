"""Writes: carries out a plan, each write under the precondition that the plan was made from.

A *create* is an apply with `metadata.resourceVersion: "1"`: it makes the object if it is absent and answers 409 if it
is present; then one live read says whose it is. A *change* is a forced apply that carries the cached uid, and the cached
resourceVersion too where it carries the replicas of a workload that an autoscaler targets. A *delete* carries the uid.
One component's failure never stops the others; deletes come last, and only for components whose
writes all went well.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from hanei.errors import LeaderLost, Retryable
from hanei.kube.errors import Conflict, Forbidden, Invalid, KubeError, NamespaceTerminating, NotFound
from hanei.observe.logs import get_logger
from hanei.operator import project
from hanei.operator.resource import lives
from hanei.plan.altered import altered
from hanei.plan.model import Blocked, Plan, Verb, Write
from hanei.plan.untangle import untangled
from hanei.plan.whose import adoption, judge, taken, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanei.app.own import Own
    from hanei.kube.client import Client
    from hanei.operator.gather import Caches

log = get_logger(__name__)

_TRIES = 5
"""Reads and patches of one object before its next pass has to go on."""


@dataclass(slots=True)
class Outcome:
    """What came of a plan: what was written, what is in the way, and the error that asks for another try."""

    written: list[Write] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    retry: KubeError | None = None
    altered: list[tuple[Write, list[str]]] = field(default_factory=list)
    """Writes of which admission changed values, and which."""
    again: bool = False
    """Whether the cache is known to be behind: the next pass decides anew, soon."""

    @property
    def clean(self) -> bool:
        """Whether every write of the plan went through."""
        return self.retry is None and not self.again and not self.blocked


class Writer:
    """Carries out plans for one app."""

    def __init__(self, client: Client, caches: Caches, leading: Callable[[], bool]) -> None:
        self._client = client
        self._caches = caches
        self.leading = leading

    async def carry_out(self, plan: Plan, own: Own) -> Outcome:
        """All writes of the plan: components at once, each in order, then the deletes. Raises `LeaderLost` only."""
        outcome = Outcome()
        groups: dict[str, list[Write]] = {}
        for write in plan.writes:
            if write.verb is not Verb.DELETE:
                groups.setdefault(write.component, []).append(write)
        failed: set[str] = set()
        if len(groups) == 1:
            ((component, writes),) = groups.items()
            await self._component(component, writes, plan, own, outcome, failed)
        elif groups:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for component, writes in groups.items():
                        tasks.create_task(self._component(component, writes, plan, own, outcome, failed))
            except BaseExceptionGroup as group:
                if group.subgroup(LeaderLost) is not None:
                    raise LeaderLost("the Lease is no longer ours: not writing") from group
                raise
        for write in plan.writes:
            if write.verb is Verb.DELETE and write.component not in failed:
                await self._one(write, plan, own, outcome)
        return outcome

    async def _component(
        self, component: str, writes: list[Write], plan: Plan, own: Own, outcome: Outcome, failed: set[str]
    ) -> None:
        for write in writes:
            if not await self._one(write, plan, own, outcome):
                failed.add(component)
                return

    async def _one(self, write: Write, plan: Plan, own: Own, outcome: Outcome) -> bool:
        """One write; whether the component may go on."""
        if not self.leading():
            raise LeaderLost("the Lease is no longer ours: not writing")
        try:
            if write.verb is Verb.CREATE:
                await self._create(write, plan, own, outcome)
            elif write.verb is Verb.CHANGE:
                await self._change(write, outcome)
            elif write.verb is Verb.ADOPT:
                await self._adopt(write, plan, own, outcome)
            else:
                await self._delete(write, own)
        except NamespaceTerminating as error:
            outcome.blocked.append(Blocked(write.component, "Waiting", "NamespaceTerminating", error.message))
            return False
        except Conflict:
            outcome.again = True  # gone, or another object has the name now: the cache will say
            return False
        except NotFound:
            outcome.again = True
            return False
        except Invalid as error:
            return self._refused(write, error, outcome)
        except Forbidden as error:
            outcome.blocked.append(Blocked(write.component, "Stalled", "Forbidden", error.message))
            outcome.retry = error
            return False
        except KubeError as error:
            if isinstance(error, Retryable):
                outcome.retry = error
            else:
                outcome.blocked.append(Blocked(write.component, "Stalled", "Refused", error.message))
            return False
        outcome.written.append(write)
        return not any(one.component == write.component for one in outcome.blocked)

    async def _create(self, write: Write, plan: Plan, own: Own, outcome: Outcome) -> None:
        assert write.body is not None
        body = {**write.body, "metadata": {**write.body["metadata"], "resourceVersion": "1"}}
        try:
            raw = await self._client.apply(write.kind, own.namespace, write.name, body)
        except Conflict:
            await self._already_there(write, plan, own, outcome)
            return
        self._took(write, raw, outcome)

    def _took(self, write: Write, raw: bytes, outcome: Outcome) -> None:
        """The server's answer to an apply."""
        self._caches.wrote(write.kind, raw)
        if paths := altered(write.body or {}, orjson.loads(raw)):
            outcome.altered.append((write, paths))

    async def _already_there(self, write: Write, plan: Plan, own: Own, outcome: Outcome) -> None:
        """The name is taken: one live read says by whom. What is ours was written by an earlier process or an earlier try."""
        raw = await self._client.get(write.kind, own.namespace, write.name)
        present = project.observed_object(project.transform_for(write.kind)(raw))
        verdict = judge(own, present)
        desired = plan.wanted[(write.kind.kind, write.name)]
        if verdict == "ours":
            self._caches.wrote(write.kind, raw)
            await self._change(replace(write, verb=Verb.CHANGE, uid=present.uid), outcome)
        elif verdict == "adopt":
            await self._adopt(adoption(own, desired, present), plan, own, outcome)
        elif verdict == "wait":
            outcome.blocked.append(waiting(own, desired, present))
        else:
            outcome.blocked.append(taken(own, desired, present))

    async def _adopt(self, write: Write, plan: Plan, own: Own, outcome: Outcome) -> None:
        """Take an object over, if the resource is still there and the server would then take what we want of the object:
        a live read and a dry run say so first. An object that is refused (another selector) keeps its owner, and is not
        collected with the resource."""
        if not await lives(self._client, own):
            outcome.again = True
            return
        body = plan.wanted[(write.kind.kind, write.name)].body
        metadata = {key: item for key, item in body["metadata"].items() if key != "ownerReferences"}
        wanted = {**body, "metadata": {**metadata, "uid": write.uid}}
        await self._client.apply(write.kind, own.namespace, write.name, wanted, force=True, dry_run=True)
        raw = await self._client.merge_patch(write.kind, own.namespace, write.name, write.body or {})
        self._caches.wrote(write.kind, raw)
        log.info("Adopted", kind=write.kind.kind, name=write.name, namespace=own.namespace)
        outcome.again = True

    async def _change(self, write: Write, outcome: Outcome) -> None:
        assert write.body is not None
        metadata = write.body["metadata"]
        if write.untangle:
            await self._untangle(write, metadata["namespace"])
        guard = {"uid": write.uid, "resourceVersion": write.resource_version} if write.guarded else {"uid": write.uid}
        body = {**write.body, "metadata": {**metadata, **guard}}
        raw = await self._client.apply(write.kind, metadata["namespace"], write.name, body, force=True)
        self._took(write, raw, outcome)

    async def _untangle(self, write: Write, namespace: str) -> None:
        """Before an apply: put the object's managedFields in order, if they still are not. A controller may be writing
        its status at the same time, so a conflict is tried again at once, a few times."""
        assert write.body is not None
        for left in reversed(range(_TRIES)):
            live = orjson.loads(await self._client.get(write.kind, namespace, write.name))
            patch = untangled(write.body, live)
            if not patch:
                return
            try:
                await self._client.json_patch(write.kind, namespace, write.name, patch)
            except Conflict:
                if not left:
                    raise
            else:
                return

    async def _delete(self, write: Write, own: Own) -> None:
        with contextlib.suppress(NotFound):  # what should be gone is gone
            await self._client.delete(write.kind, own.namespace, write.name, uid=write.uid)
        self._caches.deleted(write.kind, (own.namespace, write.name), write.uid)

    def _refused(self, write: Write, error: Invalid, outcome: Outcome) -> bool:
        """Either another object of that name is there now, or the server does not take what we want."""
        if any(where == "metadata.uid" for where, _ in error.details):
            outcome.again = True
        else:
            outcome.blocked.append(Blocked(write.component, "Stalled", "Refused", error.message))
        return False
