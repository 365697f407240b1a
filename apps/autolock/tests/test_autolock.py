"""Autolock as an author tests it: what each component is given, and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autolock.app import app
from hanei import Seen
from hanei.errors import SettingsInvalid
from hanei.plan.effects import with_value
from hanei.plan.explore import sample_of
from hanei.render.model import Rendered, Role
from hanei.render.render import own_of, render

SAMPLE = sample_of(app)


def rendered(*changes: tuple[str, Any], name: str = "lock") -> Rendered:
    spec = SAMPLE
    for path, value in changes:
        spec = with_value(spec, path, value)
    found = render(app, app.parse(spec), own_of(app, name, "default"))
    assert not found.errors
    return found


def files(found: Rendered, component: str) -> dict[str, str]:
    """The versioned files of a component."""
    return next((dict(item.body["data"]) for item in found[component].objects if item.role is Role.SLICE), {})


def of_lock(found: Rendered) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(files(found, "main")["etc_autolock_autolock_setting.json"])
    return settings


def test_the_locks_file_is_the_one_that_its_program_reads() -> None:
    """Every setting of the lock, in the published form."""
    assert set(of_lock(rendered())) == {"main", "mqtt"}
    assert of_lock(rendered())["main"]["timeout_seq"] == 300
    assert of_lock(rendered(("main.config.main.timeout_seq", 0)))["main"]["timeout_seq"] == "no"


@pytest.mark.parametrize("address", ["", "autolock-mqtt-broker"])
def test_the_own_broker_is_meant_by_nothing_and_by_the_fixed_name_of_old(address: str) -> None:
    """Two resources in a namespace then have two brokers."""
    for name in ("lock", "other"):
        found = rendered(("main.config.mqtt.broker_address", address), name=name)
        assert of_lock(found)["mqtt"]["broker_address"] == f"{name}-mqtt"
        assert json.loads(files(found, "webhook")["etc_autolock_webhook.json"])["broker_address"] == f"{name}-mqtt"


def test_another_broker_is_taken_as_it_is() -> None:
    """A broker outside the cluster."""
    assert (
        of_lock(rendered(("main.config.mqtt.broker_address", "mqtt.example.com")))["mqtt"]["broker_address"]
        == "mqtt.example.com"
    )


def test_the_webhook_knows_the_broker_and_four_topics_and_nothing_of_the_door() -> None:
    """Only what it uses can restart it."""
    settings = json.loads(files(rendered(), "webhook")["etc_autolock_webhook.json"])
    assert set(settings) == {"broker_address", "mqtt_port", "requests"}
    assert set(settings["requests"]) == {"open", "close", "relay_on", "relay_off"}


def test_one_broker_runs_whatever_the_number_and_status_says_so() -> None:
    """Mosquitto brokers share no messages."""
    for number in (1, 3):
        facets = rendered(("mqtt.replicas", number))["mqtt"].facets
        assert facets is not None
        assert facets.replicas == 1
        notes = app.status_of(Seen(settings=app.parse(with_value(SAMPLE, "mqtt.replicas", number))))["notes"]
        assert len(notes) == (number != 1)


def test_the_web_app_may_patch_its_own_resource_and_nothing_else() -> None:
    """Its Role names the one resource; no other component has an account."""
    found = rendered()
    for component in found.components:
        roles = [item for item in component.objects if item.kind.kind == "Role"]
        assert len(roles) == (component.name == "webapp")
        for role in roles:
            (rule,) = role.body["rules"]
            assert rule["resourceNames"] == ["lock"]
            assert rule["resources"] == ["autolocks"]
            assert set(rule["verbs"]) == {"get", "list", "watch", "patch"}


def test_an_ingress_is_there_exactly_when_it_is_switched_on() -> None:
    """With host, path and class of the settings."""
    for on in (True, False):
        found = rendered(("webapp.ingress.enabled", on))
        assert len([item for item in found["webapp"].objects if item.kind.kind == "Ingress"]) == on


def test_no_password_is_in_any_object() -> None:
    """Secrets are named: every use is a reference to the one Secret."""
    found = rendered(("authdb.secretName", "the-secret"))
    assert {ref.name for component in found.components for ref in component.secrets} == {"the-secret"}
    assert not found["mqtt"].secrets
    assert not found["webhook"].secrets


@pytest.mark.parametrize(
    ("path", "value"),
    [("main.config.main.rotate_direction", "up"), ("main.config.mqtt.mqtt_port", 0), ("main.image", ""), ("mqtt.image", None), ("webapp.ingress.path", "x")],
)  # fmt: skip
def test_a_wrong_setting_is_named(path: str, value: Any) -> None:
    """An image that is left empty, too."""
    with pytest.raises(SettingsInvalid, match=path):
        app.parse(with_value(SAMPLE, path, value))
