"""Whose is an object of a wanted name? What is said when it is another's, and how one is taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanei.app import names
from hanei.plan.model import Blocked, Verb, Write
from hanei.render import labels

if TYPE_CHECKING:
    from hanei.app.own import Own
    from hanei.plan.observed import ObservedObject
    from hanei.render.model import Desired


def judge(own: Own, present: ObservedObject) -> str:
    """Whose an object of a wanted name is: `ours`, `adopt`, `wait` (on its way out) or `taken`."""
    if present.owner_uid == own.uid and own.uid:
        return "ours"
    if (
        not present.owner
        and present.applied
        and present.belongs == f"{names.subdomain(f'{own.plural}.{own.group}')}/{names.subdomain(own.name)}"
    ):
        return "ours"  # we made it, and somebody took the owner away (or the resource was deleted without its objects)
    if present.adopt_by == f"{own.kind}/{own.name}":
        return "wait" if present.deleting else "adopt"  # what is being deleted goes, whoever owns it
    if present.owner == f"{own.kind}/{own.name}":
        return "wait"
    return "taken"


def waiting(own: Own, desired: Desired, present: ObservedObject) -> Blocked:
    """The message for a name that gets free: its object is being deleted, or was an earlier uid's of the resource."""
    going = "is being deleted" if present.deleting else f"of an earlier {own.kind} is being collected"
    return Blocked(desired.component, "Waiting", "Terminating", f"{desired.kind} {desired.name} {going}")


def taken(own: Own, desired: Desired, present: ObservedObject | None) -> Blocked:
    """The message for a name that somebody else has (situations S45, S46)."""
    owner = f"belongs to {present.owner}" if present is not None and present.owner else "exists and is not Hanei's"
    hint = f"rename it, or annotate it with {labels.ADOPT_BY}={own.kind}/{own.name} to hand it over"
    return Blocked(desired.component, "Stalled", "NameTaken", f"{desired.kind} {desired.name} {owner}; {hint}")


def adoption(own: Own, desired: Desired, present: ObservedObject) -> Write:
    """The write that takes an object over: owner and labels only; the next pass applies the rest."""
    metadata = desired.body["metadata"]
    body = {
        "metadata": {
            "ownerReferences": metadata["ownerReferences"],
            "labels": metadata["labels"],
            "uid": present.uid,
            "resourceVersion": present.resource_version,
        }
    }
    return Write(
        Verb.ADOPT,
        desired.kind,
        desired.name,
        desired.component,
        body,
        present.uid,
        present.resource_version,
        "adoption",
    )
