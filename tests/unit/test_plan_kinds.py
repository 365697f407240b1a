"""Plans where a setting is a map, or chooses the kind of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from hanei import App, Container, Deployment, Own, Settings, StatefulSet, as_json, kinds, setting
from hanei.plan.causes import who_changed
from hanei.plan.decide import Question, decide
from hanei.plan.effects import attribute, between, with_value
from hanei.plan.model import Effect, Plan, Verb
from hanei.plan.observed import Observed, ObservedObject
from hanei.plan.whose import judge
from hanei.render import labels
from hanei.render.render import own_of, render
from tests.unit.planning import UID, as_observed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.render.model import Rendered


class Mapped(Settings):
    """A map, and a choice of the workload's kind."""

    labels: dict[str, str] = setting({})
    other: str = setting("x")
    kind: Literal["a", "b"] = setting("a")


mapped = App(Mapped, group="a." * 25 + "example.com", version="v1", kind="Mapped", plural="mappings")


@mapped.component
def thing(spec: Mapped, own: Own) -> Deployment | StatefulSet:
    containers = (Container(image="nginx", env={"A": as_json(spec.labels), "B": spec.other}),)
    return Deployment(containers=containers) if spec.kind == "a" else StatefulSet(containers=containers)


def of_mapped(spec: Mapping[str, Any]) -> Rendered:
    return render(mapped, mapped.parse(spec), own_of(mapped, "t", "default", UID))


def test_a_key_of_a_map_may_hold_a_dot() -> None:
    """It is one step of a path, and is named as a cause among several."""
    old, new = {"labels": {"a.b": "1"}, "other": "x"}, {"labels": {"a.b": "2"}, "other": "y"}
    assert set(attribute(old, new, of_mapped)["thing"]) == {"labels.a\\.b", "other"}
    assert with_value(old, "labels.a\\.b", "2") == {"labels": {"a.b": "2"}, "other": "x"}


def test_a_change_of_the_workloads_kind_replaces_it() -> None:
    """More than a restart, and nothing that is refused."""
    assert between(of_mapped({"kind": "a"})["thing"], of_mapped({"kind": "b"})["thing"]) == {Effect.REPLACE}


def test_an_object_that_lost_its_owner_is_ours_also_where_the_apps_label_is_cut() -> None:
    """Labels are compared with labels."""
    own = own_of(mapped, "t", "default", UID)
    orphan = ObservedObject(
        kinds.DEPLOYMENT, "t-thing", "x", "1", applied="d", belongs=f"{labels.app_label(mapped.kind)}/t"
    )
    assert judge(own, orphan) == "ours"


def test_the_plan_says_replace_for_another_kind_of_workload_and_nothing_else() -> None:
    """One goes and the other comes under the same name; the removal is not told apart."""
    old, new = {"kind": "a"}, {"kind": "b"}
    own = own_of(mapped, "t", "default", UID)

    def ask(spec: Mapping[str, Any], observed: Observed, previous: Mapping[str, Any] | None) -> Plan:
        return decide(
            Question(of_mapped(spec), observed, own, spec, previous, of_mapped, declared=frozenset(("thing",)))
        )

    before = as_observed(ask(old, Observed(UID), None), Observed(UID))
    plan = ask(new, before, old)
    assert [(action.component, action.effect, action.settings) for action in plan.actions] == [
        ("thing", Effect.REPLACE, ("kind",))
    ]
    assert [(write.verb, write.kind) for write in plan.writes] == [
        (Verb.CREATE, kinds.STATEFUL_SET), (Verb.DELETE, kinds.DEPLOYMENT)
    ]  # fmt: skip
    assert ask(new, as_observed(plan, before), new).empty


def test_who_changed_a_key_that_holds_a_dot_is_found() -> None:
    """The path of a setting is divided in one way everywhere."""
    fields: dict[str, Any] = {"f:spec": {"f:labels": {"f:a.b": {}}}}
    entries = [{"manager": "anna", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}]
    assert who_changed(entries, ["labels.a\\.b"]) == "anna"
    assert who_changed(entries, ["labels.a"]) == ""
