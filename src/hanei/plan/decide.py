"""(rendered, observed) → Plan. The heart of Hanei: what is written, why, and what it does to pods.

Called by the reconcile and by `hanei plan`, with the same input types; it reads nothing and keeps nothing. The rules of
`docs/architecture.md` live here: no write without a difference, no object without one owner, nothing foreign touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hanei import kinds
from hanei.plan.causes import cause_text, who_changed
from hanei.plan.effects import OF_TEMPLATE, RenderSpec, attribute, changed
from hanei.plan.model import RANK, Action, Blocked, Effect, Plan, Verb, Write
from hanei.plan.ownership import lost_items, uncovered
from hanei.plan.prune import removals
from hanei.plan.whose import adoption, judge, taken, waiting
from hanei.render import labels
from hanei.render.canon import digest
from hanei.render.model import Desired, Rendered, RenderedComponent, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanei.app.own import Own
    from hanei.plan.observed import Observed, ObservedObject

SETTINGS = "settings changed"
UPGRADE = "upgrade: this version of the app or of Hanei renders it differently"


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a plan is decided from.

    `spec` are the settings in force and `previous` those accepted before (None: not known). `render` renders other
    settings for this resource, to find which setting causes what. `managed_fields` are the resource's own.
    `scale` is the path that `kubectl scale` changes; it is never part of a record.
    """

    rendered: Rendered
    observed: Observed
    own: Own
    spec: Mapping[str, Any]
    previous: Mapping[str, Any] | None
    render: RenderSpec
    managed_fields: tuple[Mapping[str, Any], ...] = ()
    scale: str = ""
    declared: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Draft:
    """What is collected for one component while its objects are compared."""

    writes: list[Write] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    effects: dict[Effect, str] = field(default_factory=dict)
    """Effect → reason of the first write that has it."""

    def add(self, effect: Effect, reason: str) -> None:
        self.effects.setdefault(effect, reason)


def decide(question: Question) -> Plan:
    """The plan. Its actions come in the order of the components; its writes in the order in which they are carried out."""
    differences = changed(question.previous, question.spec) if question.previous is not None else {}
    causes = (
        attribute(question.previous, question.spec, question.render)
        if differences and question.previous is not None
        else {}
    )
    actions: list[Action] = []
    writes: list[Write] = []
    blocked: list[Blocked] = []
    for component in question.rendered.components:
        draft = _component(question, component, causes.get(component.name, {}), differences)
        actions += _actions(component.name, draft, causes.get(component.name, {}))
        writes += draft.writes
        blocked += draft.blocked
    wanted = {item.ref: item for component in question.rendered.components for item in component.objects}
    gone = removals(question.rendered, question.observed, question.own.uid, question.declared)
    writes += gone
    replaced = {action.component for action in actions if action.effect is Effect.REPLACE}
    told = (write for write in gone if write.component not in replaced or write.kind not in kinds.WORKLOADS)
    actions += _removed(told, causes, question.rendered)
    return Plan(tuple(actions), tuple(writes), tuple(blocked), wanted)


def _component(
    question: Question,
    component: RenderedComponent,
    causes: Mapping[str, Effect],
    differences: Mapping[str, tuple[Any, Any]],
) -> _Draft:
    draft = _Draft()
    if component.error is not None:
        draft.blocked.append(Blocked(component.name, "Stalled", "RenderFailed", str(component.error)))
        draft.add(Effect.REFUSED, component.error.message)
        return draft
    for desired in component.objects:
        present = question.observed.objects.get(desired.ref)
        if present is not None and judge(question.own, present) != "ours":
            _foreign(question, desired, present, draft)
        elif present is not None and present.deleting:
            draft.blocked.append(waiting(question.own, desired, present))
        elif desired.role is Role.WORKLOAD:
            _workload(question, component, desired, present, draft, causes, differences)
        elif desired.role in (Role.SLICE, Role.LIVE):
            _carrier(question, component, desired, present, draft)
        else:
            _object(question, desired, present, draft)
    return draft


def _foreign(question: Question, desired: Desired, present: ObservedObject, draft: _Draft) -> None:
    verdict = judge(question.own, present)
    if verdict == "adopt":
        draft.writes.append(adoption(question.own, desired, present))
        draft.add(Effect.ADOPT, f"{desired.kind} {desired.name} is marked for adoption")
    elif verdict == "wait":
        draft.blocked.append(waiting(question.own, desired, present))
    else:
        draft.blocked.append(taken(question.own, desired, present))
        draft.add(Effect.REFUSED, f"{desired.kind} {desired.name} belongs to {present.owner or 'somebody else'}")


def _workload(
    question: Question, component: RenderedComponent, desired: Desired, present: ObservedObject | None, draft: _Draft,
    causes: Mapping[str, Effect], differences: Mapping[str, tuple[Any, Any]],
) -> None:  # fmt: skip
    if present is None:
        final = _final(desired, "created", keep_replicas=True)
        draft.writes.append(_create(final))
        if _of_another_kind(question, desired):
            draft.add(Effect.REPLACE, SETTINGS if causes else UPGRADE)
        else:
            draft.add(
                Effect.CREATE, "is new" if question.previous is None else "is missing" if not causes else SETTINGS
            )
        return
    same = present.template_hash == component.hash
    reason = _reason(question, component, present, differences)
    scaled = (desired.ref in question.observed.autoscaled) and not _owns_replicas(present)
    same_side = _as_applied(desired, present, keep_replicas=not scaled)
    if same_side is None and _immutable(component, present):
        message = (
            f"{desired.kind} {desired.name}: volume claims, pod management and the governing Service cannot change"
        )
        draft.blocked.append(Blocked(component.name, "Stalled", "Immutable", message))
        draft.add(Effect.REFUSED, message)
        return
    final = same_side or _final(
        desired,
        present.causes[0] if same and present.causes else _new_cause(question, causes, differences, reason),
        keep_replicas=not scaled,
    )
    found = _difference(final, present, reason)
    if found is None:
        return
    wanted = final.body["spec"].get("replicas")
    guarded = wanted is not None and desired.ref in question.observed.autoscaled
    draft.writes.append(replace(found.write, guarded=guarded))
    why = found.why
    in_template = any(path.startswith("spec.template") for path in found.drift)
    if not same or in_template:
        draft.add(OF_TEMPLATE[component.facets.strategy] if component.facets else Effect.RESTART, why)
    if wanted is not None and wanted != present.wanted_replicas:
        draft.add(Effect.SCALE, why)
    if same and not in_template and Effect.SCALE not in draft.effects:
        draft.add(Effect.OBJECT, why)


def _of_another_kind(question: Question, desired: Desired) -> bool:
    """Whether the component runs as another kind of workload under this name, which goes for this one."""
    return any(
        kind != desired.kind.kind and name == desired.name and present.role == Role.WORKLOAD.value
        and present.owner_uid == question.own.uid
        for (kind, name), present in question.observed.objects.items()
    )  # fmt: skip


def _immutable(component: RenderedComponent, present: ObservedObject) -> bool:
    """Whether we want another value in a field that the server never changes."""
    return bool(present.immutable and component.facets is not None and component.facets.immutable != present.immutable)


def _as_applied(desired: Desired, present: ObservedObject, *, keep_replicas: bool) -> Desired | None:
    """What we applied last, if that is still what we want: the same but for the cause, which tells of the last change."""
    found = (_final(desired, cause, keep_replicas=keep_replicas) for cause in present.causes or ("",))
    return next((final for final in found if final.digest == present.applied), None)


def _new_cause(
    question: Question, causes: Mapping[str, Effect], differences: Mapping[str, tuple[Any, Any]], reason: str
) -> str:
    settings = [path for path, effect in causes.items() if RANK[effect] >= RANK[Effect.MANUAL]]
    return cause_text(settings, differences, who_changed(question.managed_fields, settings), reason)


def _carrier(
    question: Question, component: RenderedComponent, desired: Desired, present: ObservedObject | None, draft: _Draft
) -> None:
    """A slice or a live ConfigMap: made once; a slice's content can never change, a live one's may."""
    if present is None:
        draft.writes.append(_create(_with_digest(desired)))
        workload = question.observed.objects.get(component.workload.ref) if component.workload else None
        if workload is not None and workload.template_hash == component.hash:
            draft.add(Effect.OBJECT, f"{desired.kind} {desired.name} is missing")
        return
    if found := _difference(_with_digest(desired), present, SETTINGS):
        draft.writes.append(found.write)
        draft.add(Effect.LIVE if desired.role is Role.LIVE else Effect.OBJECT, found.why)


def _object(question: Question, desired: Desired, present: ObservedObject | None, draft: _Draft) -> None:
    final = _with_digest(desired)
    if present is None:
        draft.writes.append(_create(final))
        draft.add(
            Effect.OBJECT,
            SETTINGS
            if question.previous is not None and question.previous != question.spec
            else f"{desired.kind} {desired.name} is missing",
        )
        return
    if found := _difference(final, present, SETTINGS):
        draft.writes.append(found.write)
        draft.add(Effect.OBJECT, found.why)


def _reason(
    question: Question,
    component: RenderedComponent,
    present: ObservedObject,
    differences: Mapping[str, tuple[Any, Any]],
) -> str:
    """Why a workload's digest differs, when nobody changed the object itself."""
    if question.previous is None or differences:
        return SETTINGS
    if component.stamp != present.stamp:
        names = ", ".join(sorted({ref.name for ref in component.secrets}))
        return (
            f"a value in Secret {names} changed"
            if present.stamp not in ("", "unknown")
            else f"Secret {names} can be read now"
        )
    if component.hash == present.template_hash and question.scale:
        return SETTINGS  # the path of `kubectl scale` is in no record
    return UPGRADE


def _actions(component: str, draft: _Draft, causes: Mapping[str, Effect]) -> list[Action]:
    """One action per effect: those of the changed settings, and what else was found."""
    result: list[Action] = []
    groups: dict[Effect, list[str]] = {}
    for path, effect in causes.items():
        if effect in draft.effects:
            groups.setdefault(effect, []).append(path)
    explained = [RANK[effect] for effect in groups]
    for effect, reason in draft.effects.items():
        if effect in groups:
            result.append(
                Action(component, effect, SETTINGS if effect is not Effect.REFUSED else reason, tuple(groups[effect]))
            )
        elif reason != SETTINGS or not any(rank > RANK[effect] for rank in explained):
            result.append(Action(component, effect, reason))
    whole = (Effect.CREATE, Effect.REPLACE)
    if any(action.effect in whole for action in result):
        result = [action for action in result if action.effect in (*whole, Effect.REFUSED, Effect.ADOPT)]
    return sorted(result, key=lambda action: -RANK[action.effect])


def _removed(gone: Iterable[Write], causes: Mapping[str, Mapping[str, Effect]], rendered: Rendered) -> list[Action]:
    by_component: dict[str, list[Write]] = {}
    for write in gone:
        by_component.setdefault(write.component, []).append(write)
    running = {component.name for component in rendered.components if component.wanted}
    result = []
    for component, writes in by_component.items():
        effect = Effect.OBJECT if component in running else Effect.REMOVE
        settings = tuple(
            path for path, found in causes.get(component, {}).items() if found in (Effect.OBJECT, Effect.REMOVE)
        )
        names = ", ".join(f"{write.kind} {write.name}" for write in writes)
        result.append(Action(component, effect, SETTINGS if settings else f"not wanted any more: {names}", settings))
    return result


def _with_digest(desired: Desired) -> Desired:
    return _final(desired, "", keep_replicas=True)


def _final(desired: Desired, cause: str, *, keep_replicas: bool) -> Desired:
    """What is really applied: with the cause (workloads only), without replicas that an autoscaler owns, with the digest."""
    body = dict(desired.body)
    metadata = dict(body["metadata"])
    annotations = dict(metadata.get("annotations", {}))
    if desired.role is Role.WORKLOAD:
        spec = dict(body["spec"])
        if not keep_replicas:
            spec.pop("replicas", None)
        if cause:
            annotations[labels.CAUSE] = cause
            template = dict(spec["template"])
            inner = dict(template["metadata"])
            inner["annotations"] = {**inner.get("annotations", {}), labels.CAUSE: cause}
            template["metadata"] = inner
            spec["template"] = template
        body["spec"] = spec
    metadata["annotations"] = annotations
    body["metadata"] = metadata
    found = digest(body) if desired.role is Role.WORKLOAD else desired.digest
    metadata["annotations"] = {**annotations, labels.APPLIED: found}
    return replace(desired, body=body, digest=found)


def _create(desired: Desired) -> Write:
    return Write(Verb.CREATE, desired.kind, desired.name, desired.component, desired.body, reason="create")


class _Difference(NamedTuple):
    write: Write
    why: str
    drift: list[str]


def _difference(final: Desired, present: ObservedObject, reason: str) -> _Difference | None:
    """The write that an object needs and why: `reason` where our side changed, else what others did. None: no write."""
    drift = uncovered(present.fields, final.body)
    ours = present.applied != final.digest
    if not ours and not drift and not present.shadowed:
        return None
    write = Write(
        Verb.CHANGE,
        final.kind,
        final.name,
        final.component,
        final.body,
        present.uid,
        present.resource_version,
        "change",
        () if ours else tuple(drift),
        untangle=present.shadowed or present.fields is None or lost_items(drift),
    )
    return _Difference(write, reason if ours else _drift_text(drift), drift)


def _owns_replicas(present: ObservedObject) -> bool:
    return present.fields is not None and "f:replicas" in present.fields.get("f:spec", {})


def _drift_text(paths: Iterable[str]) -> str:
    listed = list(paths)
    if not listed:
        return "another manager's entry also owns what is ours"
    shown = ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
    return f"somebody else changed {shown}"
