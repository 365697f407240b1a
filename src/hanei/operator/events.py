"""Events: what people should see in `kubectl describe`. Written for what is out of the ordinary only.

A normal change writes none: the status and the workload's change-cause tell it. One event per object, reason and text
within ten minutes; its name is derived, never generated, so a repeated write is refused and costs nothing more.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.errors import ApiError
from hanei.observe.logs import get_logger

if TYPE_CHECKING:
    from hanei.app.application import App
    from hanei.kube.client import Client
    from hanei.operator.resource import Resource

log = get_logger(__name__)

QUIET = 600.0
"""Seconds in which the same event is not written again."""
REMEMBERED = 5000
"""Events remembered for that; the oldest are forgotten first."""
NOTE_LIMIT = 1000


class Recorder:
    """Writes events about the resources of one app. Never raises: an event that cannot be written is logged."""

    def __init__(self, client: Client, app: App[Any], instance: str) -> None:
        self._client = client
        self._app = app
        self._instance = instance
        self._said: dict[str, float] = {}

    async def say(self, resource: Resource, kind: str, reason: str, note: str, action: str = "Reconcile") -> None:
        """Write one event. `kind` is Normal or Warning, `reason` a word, `note` a sentence."""
        loop_time = asyncio.get_running_loop().time()
        mark = hashlib.sha256(f"{resource.own.uid} {reason} {note}".encode()).hexdigest()[:16]
        if loop_time - self._said.get(mark, -QUIET) < QUIET:
            return
        self._said[mark] = loop_time
        while len(self._said) > REMEMBERED:
            del self._said[next(iter(self._said))]
        try:
            await self._client.create(
                kinds.EVENT, resource.own.namespace, self._body(resource, kind, reason, note[:NOTE_LIMIT], action, mark)
            )
        except ApiError as error:
            log.info("An event could not be written", reason=reason, resource=resource.own.name, error=str(error))

    def _body(self, resource: Resource, kind: str, reason: str, note: str, action: str, mark: str) -> dict[str, Any]:
        now = datetime.now(UTC)
        own = resource.own
        return {
            "apiVersion": kinds.EVENT.api_version,
            "kind": "Event",
            "metadata": {"name": f"{own.name[:200]}.{mark}{int(now.timestamp()):x}", "namespace": own.namespace},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "hanei.dev/operator",
            "reportingInstance": self._instance[:128],
            "action": action,
            "type": kind,
            "reason": reason,
            "note": note,
            "regarding": {
                "apiVersion": self._app.kind.api_version,
                "kind": own.kind,
                "name": own.name,
                "namespace": own.namespace,
                "uid": own.uid,
            },
        }
