"""What the tests of plans share: observed objects built from what a plan would have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autolock.app import app as autolock
from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise
from hanei.plan.decide import Question, decide
from hanei.plan.model import Plan, Verb
from hanei.plan.observed import Observed, ObservedObject
from hanei.render import labels
from hanei.render.render import own_of, render

if TYPE_CHECKING:
    from hanei.render.model import Rendered

Modifier = Callable[[ObservedObject], ObservedObject]
UID = "u1"
OWN = own_of(autolock, "lock", "default", UID)
SAMPLE = normalise(spec_schema(autolock), autolock.sample)


def rendered(spec: Mapping[str, Any] = SAMPLE) -> Rendered:
    return render(autolock, autolock.parse(normalise(spec_schema(autolock), spec)), OWN)


def fields_of(value: Any) -> dict[str, Any]:
    """A managedFields entry that covers a value, as the server would write it."""
    if isinstance(value, dict):
        return {f"f:{key}": fields_of(item) for key, item in value.items()}
    return {}


def entry_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return {f"f:{key}": fields_of({name: item for name, item in value.items() if name not in ("name", "namespace")} if key == "metadata" else value) for key, value in body.items() if key not in ("apiVersion", "kind")}  # fmt: skip


def as_observed(plan: Plan, before: Observed) -> Observed:
    """What would be observed once the plan's writes are carried out."""
    objects = dict(before.objects)
    for write in plan.writes:
        ref = (write.kind.kind, write.name)
        if write.verb is Verb.DELETE:
            del objects[ref]
            continue
        assert write.body is not None
        meta = write.body["metadata"]
        template = write.body.get("spec", {}).get("template", {}).get("metadata", {})
        notes, found = meta["annotations"], template.get("annotations", {})
        objects[ref] = ObservedObject(
            write.kind, write.name, f"uid-{write.name}", "1", 1, meta["labels"]["app.kubernetes.io/component"], meta["labels"][labels.ROLE],
            notes[labels.APPLIED], notes.get(labels.IMMUTABLE, ""), entry_of(write.body), UID, "Autolock/lock",
            wanted_replicas=write.body.get("spec", {}).get("replicas"), template_hash=template.get("labels", {}).get(labels.HASH, ""),
            stamp=found.get(labels.SECRETS, ""), causes=tuple(dict.fromkeys((found.get(labels.CAUSE, ""), notes.get(labels.CAUSE, "")))),
        )  # fmt: skip
    return replace(before, objects=objects)


def ask(spec: Mapping[str, Any], observed: Observed, previous: Mapping[str, Any] | None = None, **options: Any) -> Plan:
    return decide(
        Question(
            rendered(spec), observed, OWN, spec, previous, rendered, declared=frozenset(autolock.components), **options
        )
    )


def converged(spec: Mapping[str, Any] = SAMPLE) -> Observed:
    """Everything of this spec, as it would be observed."""
    empty = Observed(UID)
    return as_observed(ask(spec, empty), empty)


def changed_object(observed: Observed, ref: tuple[str, str], *modifiers: Modifier) -> Observed:
    found = observed.objects[ref]
    for modifier in modifiers:
        found = modifier(found)
    return replace(observed, objects={**observed.objects, ref: found})
