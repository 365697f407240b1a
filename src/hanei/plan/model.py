"""What a plan is made of. Frozen values; made by `hanei.plan.decide`, carried out by `hanei.operator.apply`.

The preview and the reconcile are the same plan: `hanei plan` prints the actions, the operator carries out the writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.kinds import Kind
    from hanei.render.model import Desired


class Effect(StrEnum):
    """What a change does to a component, from nothing to the most that can happen."""

    NONE = "none"
    OBJECT = "object"
    LIVE = "live"
    SCALE = "scale"
    ADOPT = "adopt"
    CREATE = "create"
    REMOVE = "remove"
    MANUAL = "manual"
    RESTART = "restart"
    RECREATE = "recreate"
    REPLACE = "replace"
    REFUSED = "refused"


RANK = {effect: rank for rank, effect in enumerate(Effect)}
EXPLAINED = {
    Effect.NONE: "nothing happens",
    Effect.OBJECT: "an object without pods changes",
    Effect.LIVE: "a file is refreshed in place, no pod restarts",
    Effect.SCALE: "pods are added or removed, none restarts",
    Effect.ADOPT: "an existing object is taken over",
    Effect.CREATE: "the component is made",
    Effect.REMOVE: "the component goes",
    Effect.MANUAL: "pods get it when they are deleted by hand",
    Effect.RESTART: "pods are replaced, one after the other",
    Effect.RECREATE: "pods are stopped, then started: downtime",
    Effect.REPLACE: "the object is deleted and made anew",
    Effect.REFUSED: "cannot be done",
}


def strongest(effects: frozenset[Effect] | set[Effect]) -> Effect:
    """The effect that says most; `none` of nothing."""
    return max(effects, key=RANK.__getitem__, default=Effect.NONE)


class Verb(StrEnum):
    """How an object is written."""

    CREATE = "create"
    CHANGE = "change"
    ADOPT = "adopt"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write:
    """One write to the API server, with the precondition that guards it.

    `body` is what is applied (None for a delete). `uid` and `resource_version` are those that the plan was made from.
    """

    verb: Verb
    kind: Kind
    name: str
    component: str
    body: Mapping[str, Any] | None = None
    uid: str = ""
    resource_version: str = ""
    reason: str = ""
    drift: tuple[str, ...] = ()
    """Paths of ours that somebody else changed or removed."""
    untangle: bool = False
    """Whether the live object must be put in order before the apply: an entry that shadows ours, a renamed list item."""
    guarded: bool = False
    """Whether the change holds for `resource_version` only: it carries a number that an autoscaler may have changed since."""


@dataclass(frozen=True, slots=True)
class Action:
    """What happens to a component, why, and which settings cause it."""

    component: str
    effect: Effect
    reason: str
    settings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form of `hanei plan -o json`."""
        return {
            "component": self.component,
            "effect": self.effect.value,
            "reason": self.reason,
            "settings": list(self.settings),
        }


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that a component waits for or cannot get past. `state` is Waiting or Stalled."""

    component: str
    state: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What must happen, in order: actions for people, writes for the API server, and what is in the way."""

    actions: tuple[Action, ...] = ()
    writes: tuple[Write, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    wanted: Mapping[tuple[str, str], Desired] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing would be written."""
        return not self.writes

    def as_json(self) -> dict[str, Any]:
        """The form of `hanei plan -o json`."""
        return {"actions": [action.as_json() for action in self.actions]}
