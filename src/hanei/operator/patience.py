"""When not to try again: a fight with another writer, and what the server refuses.

Pure bookkeeping over times that the caller gives; used by `reconcile`. It is memory of this process only: losing it
costs one more try, never a wrong write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hanei.plan.model import Blocked, Plan, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.operator.apply import Outcome

FIGHT_AFTER = 3
"""Reverts of one field within `FIGHT_WINDOW` seconds after which somebody is fighting us."""
FIGHT_WINDOW = 600.0
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0
REFUSED_PAUSE = 300.0
"""Seconds before the same content is sent again to a server that refused it."""

_Ref = tuple[str, str, str]
_Field = tuple[str, str, str, str]


@dataclass(slots=True)
class _Fight:
    times: list[float] = field(default_factory=list)
    not_before: float = 0.0


class Patience:
    """What is known about other writers and refusals, by resource uid, kind and name."""

    def __init__(self) -> None:
        self._fights: dict[_Field, _Fight] = {}
        self._refused: dict[_Ref, tuple[int, float, str]] = {}

    def allow(self, uid: str, plan: Plan, now: float) -> tuple[list[Write], list[Blocked]]:
        """The writes that may go now, and what holds the others."""
        allowed, waits = [], []
        held: set[str] = set()
        for write in plan.writes:
            ref = (uid, write.kind.kind, write.name)
            fight = self._worst(ref, write, now)
            refused = self._refused.get(ref)
            if write.component in held:
                continue
            if refused is not None and refused[0] == _fingerprint(write) and now < refused[1]:
                waits.append(Blocked(write.component, "Stalled", "Refused", refused[2]))
                held.add(write.component)
            elif fight is not None:
                text = f"{write.kind} {write.name}: somebody else changed {', '.join(write.drift[:3])} {len(fight.times)} times in ten minutes; Hanei puts it back in {fight.not_before - now:.0f} s"
                waits.append(Blocked(write.component, "Stalled", "Contested", text))
            else:
                allowed.append(write)
        return allowed, waits

    def learn(self, uid: str, plan: Plan, outcome: Outcome, now: float) -> None:
        """What came of the writes that went."""
        for write in outcome.written:
            ref = (uid, write.kind.kind, write.name)
            self._refused.pop(ref, None)
            for path in write.drift:
                self._fought((*ref, path), now)
        stalled = {one.component: one.message for one in outcome.blocked if one.reason == "Refused"}
        done = {id(write) for write in outcome.written}
        for write in plan.writes:
            if write.component in stalled and id(write) not in done:
                self._refused[(uid, write.kind.kind, write.name)] = (
                    _fingerprint(write),
                    now + REFUSED_PAUSE,
                    stalled.pop(write.component),
                )

    def next_in(self, uid: str, now: float) -> Iterator[float]:
        """Seconds until a pause of this resource ends."""
        for ref, fight in self._fights.items():
            if ref[0] == uid and fight.not_before > now:
                yield fight.not_before - now

    def _worst(self, ref: _Ref, write: Write, now: float) -> _Fight | None:
        """The fight over a field of this write that pauses longest, if any does."""
        found = [self._fights[(*ref, path)] for path in write.drift if (*ref, path) in self._fights]
        worst = max(found, key=lambda fight: fight.not_before, default=None)
        return worst if worst is not None and now < worst.not_before else None

    def _fought(self, ref: _Field, now: float) -> None:
        fight = self._fights.setdefault(ref, _Fight())
        fight.times = [time for time in fight.times if now - time < FIGHT_WINDOW] + [now]
        extra = len(fight.times) - FIGHT_AFTER
        if extra >= 0:
            fight.not_before = now + min(FIRST_PAUSE * 2**extra, LONGEST_PAUSE)


def _fingerprint(write: Write) -> int:
    return hash(repr(write.body))
