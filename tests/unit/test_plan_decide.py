"""Plans: state in, actions and writes out. Observed objects are built from what a plan would have written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autolock.app import app as autolock
from hanei import App, Container, Deployment, Own, Settings, StatefulSet, setting
from hanei.plan.causes import cause_text, who_changed
from hanei.plan.effects import attribute, between, changed, leaves_of, with_value
from hanei.plan.explore import explore, sample_of
from hanei.plan.model import Effect, Verb
from hanei.plan.observed import Observed, ObservedPod, WorkloadStatus
from hanei.plan.ownership import uncovered
from hanei.plan.readiness import progress
from hanei.plan.whose import judge
from hanei.render.canon import canonical, digest
from hanei.render.model import Rendered, Role
from hanei.render.render import own_of, render
from tests.unit.planning import (
    OWN,
    SAMPLE,
    UID,
    Modifier,
    as_observed,
    ask,
    changed_object,
    converged,
    rendered,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = ("Deployment", "lock-main")


def test_a_new_resource_is_created_component_by_component() -> None:
    """Files and access before the workload; one action per component."""
    plan = ask(SAMPLE, Observed(UID))
    assert {(action.component, action.effect) for action in plan.actions} == {
        (name, Effect.CREATE) for name in autolock.components
    }
    assert {write.verb for write in plan.writes} == {Verb.CREATE}
    for component in autolock.components:
        kinds = [write.kind.kind for write in plan.writes if write.component == component]
        assert kinds[-1] in ("Deployment", "StatefulSet")


def test_s18_the_same_settings_again_are_an_empty_plan() -> None:
    """plan(x, x) is empty, with and without knowing what was before."""
    observed = converged()
    for previous in (None, SAMPLE):
        plan = ask(SAMPLE, observed, previous)
        assert plan.empty
        assert plan.actions == ()


CHANGES: dict[str, tuple[Modifier, list[tuple[str, Effect, str]]]] = {
    "its digest is another version's": (lambda it: replace(it, applied="old"), [("main", Effect.OBJECT, "upgrade")]),
    "its template is another version's": (lambda it: replace(it, applied="old", template_hash="old"), [("main", Effect.RESTART, "upgrade")]),
    "somebody took replicas": (lambda it: replace(it, fields=_without(it.fields, "f:spec", "f:replicas"), wanted_replicas=9), [("main", Effect.SCALE, "somebody else changed spec.replicas")]),
    "somebody took the template": (lambda it: replace(it, fields=_without(it.fields, "f:spec", "f:template")), [("main", Effect.RESTART, "somebody else changed spec.template")]),
    "our entry is gone": (lambda it: replace(it, fields=None), [("main", Effect.OBJECT, "somebody else changed (everything)")]),
    "its owner was taken away": (lambda it: replace(it, owner="", owner_uid="", belongs="autolocks.autolock.takuteh.uk/lock"), []),
    "it is being deleted": (lambda it: replace(it, deleting=True), []),
}  # fmt: skip


def _without(fields: Mapping[str, Any] | None, *path: str) -> dict[str, Any]:
    head, *rest = path
    found = dict(fields or {})
    if rest:
        found[head] = _without(found[head], *rest)
    else:
        del found[head]
    return found


@pytest.mark.parametrize("case", CHANGES)
def test_a_difference_in_what_is_observed_has_its_effect_and_reason(case: str) -> None:
    """One object differs: one action, with its reason; nothing else is written."""
    modifier, expected = CHANGES[case]
    plan = ask(SAMPLE, changed_object(converged(), MAIN, modifier), SAMPLE)
    assert [(action.component, action.effect) for action in plan.actions] == [
        (component, effect) for component, effect, _ in expected
    ]
    for action, (_, _, reason) in zip(plan.actions, expected, strict=True):
        assert action.reason.startswith(reason)
        assert action.settings == ()
    assert {write.name for write in plan.writes} <= {"lock-main"}


def test_s45_s46_a_foreign_object_is_left_alone_and_named() -> None:
    """Another owner, or none and not our mark: NameTaken. Marked for adoption: adopted. An earlier uid: waited for."""
    observed = converged()
    for modifier, verdict in (
        (lambda it: replace(it, owner_uid="other", owner="Autolock/rival"), "taken"),
        (lambda it: replace(it, owner_uid="", owner="", applied=""), "taken"),
        (lambda it: replace(it, owner_uid="other", owner="Shop/x", adopt_by="Autolock/lock"), "adopt"),
        (lambda it: replace(it, owner_uid="earlier", owner="Autolock/lock"), "wait"),
    ):
        found = changed_object(observed, MAIN, modifier)
        assert judge(OWN, found.objects[MAIN]) == verdict
        plan = ask(SAMPLE, found, SAMPLE)
        writes = [write for write in plan.writes if write.name == "lock-main"]
        assert [write.verb for write in writes] == ([Verb.ADOPT] if verdict == "adopt" else [])
        assert bool(plan.blocked) is (verdict != "adopt")


def test_an_immutable_field_is_refused_before_anything_is_written() -> None:
    """Another volume size of a StatefulSet: named, not sent."""
    observed = changed_object(
        converged(), ("StatefulSet", "lock-mqtt"), lambda it: replace(it, immutable="other", applied="other")
    )
    plan = ask(SAMPLE, observed, SAMPLE)
    assert [(action.component, action.effect) for action in plan.actions] == [("mqtt", Effect.REFUSED)]
    assert plan.empty
    assert plan.blocked[0].reason == "Immutable"


def test_s38_an_autoscaler_that_owns_replicas_keeps_them() -> None:
    """With an autoscaler our number is left out; while we own it still, it stays."""
    taken = changed_object(
        converged(), MAIN, lambda it: replace(it, fields=_without(it.fields, "f:spec", "f:replicas"), wanted_replicas=9)
    )
    plan = ask(SAMPLE, replace(taken, autoscaled=frozenset({MAIN})), SAMPLE)
    assert all("replicas" not in (write.body or {})["spec"] for write in plan.writes)
    assert Effect.SCALE not in {action.effect for action in plan.actions}
    assert ask(SAMPLE, replace(converged(), autoscaled=frozenset({MAIN})), SAMPLE).empty
    edited = ask(
        with_value(SAMPLE, "main.config.main.timeout_seq", 60),
        replace(converged(), autoscaled=frozenset({MAIN})),
        SAMPLE,
    )
    carries = {(write.kind.kind, write.name): write.guarded for write in edited.writes if write.verb is Verb.CHANGE}
    assert carries == {MAIN: True}, "a number that we still own goes only onto the object that we saw"


def test_s49_what_is_not_wanted_any_more_is_removed_by_uid() -> None:
    """A switched-off Ingress goes as an object of its component; a component that did not render loses nothing."""
    spec = with_value(SAMPLE, "webapp.ingress.enabled", False)
    plan = ask(spec, converged(), SAMPLE)
    assert [(write.verb, write.kind.kind, write.uid) for write in plan.writes] == [
        (Verb.DELETE, "Ingress", "uid-lock-webapp")
    ]
    assert [(action.component, action.effect, action.settings) for action in plan.actions] == [
        ("webapp", Effect.OBJECT, ("webapp.ingress.enabled",))
    ]


class Two(Settings):
    """A setting that matters only together with another."""

    mode: Literal["off", "on", "gone"] = setting("off")
    text: str = setting("a")
    broken: bool = setting(False)


two = App(Two, group="two.example.com", version="v1", kind="Two", plural="twos")


@two.component
def only(spec: Two, own: Own) -> Deployment | None:
    if spec.broken:
        raise RuntimeError("broken")
    return (
        Deployment(containers=[Container(image="nginx", env={"T": spec.text if spec.mode == "on" else ""})])
        if spec.mode != "gone"
        else None
    )


@two.component
def stateful(spec: Two, own: Own) -> StatefulSet:
    return StatefulSet(update="OnDelete", containers=[Container(image="nginx", env={"M": spec.mode})])


def of_two(spec: Mapping[str, Any]) -> Rendered:
    return render(two, two.parse(spec), own_of(two, "t", "default", UID))


def test_a_setting_that_matters_only_with_another_one_is_named_too() -> None:
    """Tried alone on the old settings, and taken back alone from the new ones."""
    found = attribute({"mode": "off", "text": "a"}, {"mode": "on", "text": "b"}, of_two)
    assert set(found["only"]) == {"mode", "text"}
    assert explore(two).effects["text"]["only"] is Effect.RESTART


def test_s83_effects_tell_recreate_on_delete_and_removal() -> None:
    """What happens to pods is the strategy's."""
    assert between(of_two({"mode": "off"})["stateful"], of_two({"mode": "on"})["stateful"]) == {Effect.MANUAL}
    assert between(of_two({})["only"], of_two({"mode": "gone"})["only"]) == {Effect.REMOVE}
    assert between(of_two({"mode": "gone"})["only"], of_two({})["only"]) == {Effect.CREATE}
    assert between(of_two({})["only"], of_two({"broken": True})["only"]) == {Effect.REFUSED}


def test_s90_explain_says_of_every_setting_what_the_table_wants() -> None:
    """Learned by trying, equal to `autolock_effects.tsv`; the setting that nobody reads is reported."""
    lines = [
        line.split("\t")
        for line in (Path(__file__).parents[1] / "data" / "autolock_effects.tsv").read_text().splitlines()
        if not line.startswith("#")
    ]
    wanted = {
        row[0]: {name: "none" if effect == "-" else effect for name, effect in zip(lines[0][1:], row[1:], strict=True)}
        for row in lines[1:]
    }
    found = explore(autolock)
    assert {
        path: {name: effect.value for name, effect in effects.items()} for path, effects in found.effects.items()
    } == wanted
    assert found.unread == ("mqtt.replicas",)


OWNERSHIP: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "all leaves": ({"f:a": {"f:b": {}}}, {"a": {"b": 1}}, []),
    "a missing leaf": ({"f:a": {"f:b": {}}}, {"a": {"b": 1, "c": 2}}, ["a.c"]),
    "an atomic whole": ({"f:a": {}}, {"a": [{"x": 1}]}, []),
    "a list item by name": ({"f:a": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:v": {}}}}, {"a": [{"name": "x", "v": 1}]}, []),
    "a list item that is gone": ({"f:a": {'k:{"name":"y"}': {".": {}}}}, {"a": [{"name": "x"}]}, ["a[x]"]),
    "a defaulted key": ({"f:a": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}, {"a": [{"port": 80}]}, []),
    "a value of a set": ({"f:a": {'v:"x"': {}}}, {"a": ["x", "y"]}, ["a[y]"]),
    "an empty map": ({"f:a": {"f:b": {}}}, {"a": {"b": {}}}, []),
    "an empty map that is gone": ({"f:a": {".": {}}}, {"a": {"b": {}}}, ["a.b"]),
    "an empty list": ({"f:a": {".": {}}}, {"a": {"b": []}}, []),
    "identity is not tracked": ({}, {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "namespace": "y", "uid": "z"}}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", OWNERSHIP)
def test_an_entry_covers_or_names_what_it_lacks(case: str) -> None:
    """The keys of FieldsV1 say how list items match."""
    entry, wanted, missing = OWNERSHIP[case]
    if case == "identity is not tracked":
        entry = {"f:metadata": {".": {}}}
    assert uncovered(entry, wanted) == missing


STATUS = WorkloadStatus(1, 2, 2, 2, 2)
NOT_READY: dict[str, Modifier] = {
    "the cluster has not seen the generation": lambda it: replace(it, generation=2),
    "old pods satisfy the count": lambda it: replace(it, status=replace(STATUS, updated=1)),
    "a pod is missing": lambda it: replace(it, status=replace(STATUS, available=1)),
    "there is one too many": lambda it: replace(it, status=replace(STATUS, replicas=3)),
    "the template is another one": lambda it: replace(it, template_hash="old"),
}


@pytest.mark.parametrize("case", [*NOT_READY, "nothing", "a pod of another hash", "no pod is seen"])
def test_s81_ready_needs_generation_counts_and_the_hash_of_every_pod(case: str) -> None:
    """Each of them alone keeps a component from being done."""
    component = rendered()["main"]
    hash_ = "old" if case == "a pod of another hash" else component.hash
    pods = tuple(
        ObservedPod(f"p{number}", f"u{number}", "main", hash_ if number else component.hash, True, workload="lock-main")
        for number in range(0 if case == "no pod is seen" else 2)
    )
    base = replace(converged().objects[MAIN], status=STATUS)
    observed = Observed(UID, {MAIN: NOT_READY[case](base) if case in NOT_READY else base}, pods)
    assert progress(component, observed).done is (case == "nothing")


def test_causes_name_settings_values_and_who() -> None:
    """Bounded, and readable in `kubectl rollout history`."""
    differences = changed({"a": {"b": 1}}, {"a": {"b": 2}, "c": "x" * 900})
    assert cause_text(["a.b"], differences, "kubectl") == "a.b: 1 → 2 (kubectl)"
    assert len(cause_text(list(differences) * 50, differences)) <= 400
    fields: list[dict[str, Any]] = [
        {"manager": "first", "time": "1", "fieldsV1": {"f:spec": {"f:a": {"f:b": {}}}}},
        {"manager": "last", "time": "2", "fieldsV1": {"f:spec": {"f:a": {"f:b": {}}}}},
        {"manager": "status", "time": "3", "subresource": "status"},
    ]
    assert who_changed(fields, ["a.b"]) == "last"


LEAVES = dict(leaves_of(SAMPLE))
OTHER = {path: (not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else "right" if path.endswith("direction") else "Exact" if path.endswith("pathType") else f"{value}x") for path, value in LEAVES.items()}  # fmt: skip
EDITS = st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=6, unique=True)


@given(EDITS)
def test_applying_a_plan_makes_the_next_one_empty(paths: list[str]) -> None:
    """Whatever was edited: one pass is enough, and it names nothing but what was edited."""
    spec = dict(SAMPLE)
    for path in paths:
        spec = with_value(spec, path, OTHER[path])
    observed = converged()
    plan = ask(spec, observed, SAMPLE)
    assert {setting_ for action in plan.actions for setting_ in action.settings} <= set(paths)
    after = as_observed(plan, observed)
    assert ask(spec, after, spec).empty
    assert ask(spec, after, SAMPLE).empty


@given(EDITS, st.randoms(use_true_random=False))
def test_the_order_of_edits_does_not_matter(paths: list[str], chance: Any) -> None:
    """The same set of edits is the same spec, the same rendering and the same plan."""
    orders = [paths, chance.sample(paths, len(paths))]
    specs = []
    for order in orders:
        spec = dict(SAMPLE)
        for path in order:
            spec = with_value(spec, path, OTHER[path])
        specs.append(spec)
    assert specs[0] == specs[1]
    assert [item.hash for item in rendered(specs[0]).components] == [
        item.hash for item in rendered(specs[1]).components
    ]
    first, second = (ask(spec, converged(), SAMPLE) for spec in specs)
    assert [write.body for write in first.writes] == [write.body for write in second.writes]


@given(EDITS, EDITS)
def test_a_to_b_to_c_ends_where_a_to_c_does(first: list[str], second: list[str]) -> None:
    """Nothing is left of what was in between, but the cause of the last restart."""
    middle = dict(SAMPLE)
    for path in first:
        middle = with_value(middle, path, OTHER[path])
    end = dict(SAMPLE)
    for path in second:
        end = with_value(end, path, OTHER[path])
    observed = converged()
    long = as_observed(
        ask(end, as_observed(ask(middle, observed, SAMPLE), observed), middle),
        as_observed(ask(middle, observed, SAMPLE), observed),
    )
    short = as_observed(ask(end, observed, SAMPLE), observed)
    keep = [ref for ref, item in short.objects.items() if item.role not in (Role.SLICE.value, Role.LIVE.value)]
    assert {ref: long.objects[ref].template_hash for ref in keep} == {
        ref: short.objects[ref].template_hash for ref in keep
    }
    assert {ref for ref, item in long.objects.items() if item.role not in (Role.SLICE.value, Role.LIVE.value)} == set(
        keep
    )


def test_the_sample_is_normal() -> None:
    """The tests above start from what the server would store."""
    assert sample_of(autolock) == SAMPLE


@given(EDITS)
def test_rendering_is_a_function_of_the_spec(paths: list[str]) -> None:
    """The same spec, parsed anew, gives the same bytes."""
    spec = dict(SAMPLE)
    for path in paths:
        spec = with_value(spec, path, OTHER[path])
    first, second = rendered(spec), rendered(dict(reversed(list(spec.items()))))
    assert [canonical(item.body) for one in first.components for item in one.objects] == [
        canonical(item.body) for one in second.components for item in one.objects
    ]


def test_rendering_gives_the_same_bytes_in_another_process() -> None:
    """Every setting changed alone, rendered here and by a process with another hash seed: one digest."""
    specs = [with_value(SAMPLE, path, OTHER[path]) for path in LEAVES]
    code = (
        "import sys, orjson; from autolock.app import app; from hanei.render.canon import digest; from hanei.render.render import own_of, render\n"
        "own = own_of(app, 'lock', 'default', 'u1')\n"
        "print(digest([[dict(o.body) for c in render(app, app.parse(s), own).components for o in c.objects] for s in orjson.loads(sys.stdin.buffer.read())]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=canonical(specs),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.decode().strip() == digest(
        [[dict(item.body) for one in rendered(spec).components for item in one.objects] for spec in specs]
    )
