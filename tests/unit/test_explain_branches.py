"""What `explain` learns by trying: settings that matter in one branch only, groups that are optional, and what is refused."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from hanei import (
    App,
    Claim,
    Container,
    Deployment,
    Duration,
    Ingress,
    Own,
    Quantity,
    Settings,
    StatefulSet,
    as_json,
    secret,
    setting,
)
from hanei.cli.explain import lock_text
from hanei.errors import AppError
from hanei.plan.explore import explore, kinds_of, sample_of, uses_secrets


class Tls(Settings):
    """Both or nothing: neither can be tried alone."""

    cert: str = setting(min_length=1)
    key: str = setting(min_length=1)


class Route(Settings):
    host: str = setting(min_length=1)
    weight: int = setting(1, ge=0)


class Spec(Settings):
    """Branches of every kind."""

    image: str = setting("nginx")
    mode: Literal["plain", "fast", "safe"] = setting("plain")
    fast_only: str = setting("a")
    debug: bool = setting(False)
    debug_level: int = setting(1, ge=1, le=5)
    tls: Tls | None = setting(None)
    given: Tls | None = setting(None)
    routes: list[Route] = setting([])
    limits: dict[str, str] = setting({})
    size: Quantity = setting("1Gi")
    wait: Duration = setting("5m")
    workers: int = setting(0, ge=0)
    nothing: str = setting("a")
    broken: bool = setting(False)


app = App(
    Spec,
    group="a.example.com",
    version="v1",
    kind="Thing",
    plural="things",
    sample={"given": {"cert": "c", "key": "k"}},
)


@app.component
def web(spec: Spec, own: Own) -> Deployment:
    env: dict[str, Any] = {"LEVEL": spec.debug_level} if spec.debug else {}
    if spec.mode == "fast":
        env["FAST"] = spec.fast_only
    if spec.tls is not None:
        env["CERT"] = spec.tls.cert
        env["KEY"] = secret(spec.tls.key, "key")
    if spec.given is None:
        env["NONE"] = spec.wait
    return Deployment(
        containers=[Container(image=spec.image, env=env, files={"/etc/l.json": as_json(spec.limits)})],
        service=[80],
        ingress=[Ingress(host=route.host, port=80) for route in spec.routes],
    )


@app.component
def worker(spec: Spec, own: Own) -> Deployment | None:
    if spec.broken:
        raise RuntimeError("not with this setting")
    return Deployment(replicas=spec.workers, containers=[Container(image=spec.image)]) if spec.workers else None


@app.component
def store(spec: Spec, own: Own) -> StatefulSet:
    return StatefulSet(containers=[Container(image="db")], claims=[Claim(size=spec.size, mount="/data")])


WANTED = {
    "image": ("restart", "restart", "none"),
    "mode": ("restart", "none", "none"),
    "fast_only": ("restart", "none", "none"),
    "debug": ("restart", "none", "none"),
    "debug_level": ("restart", "none", "none"),
    "tls.cert": ("restart", "none", "none"),
    "tls.key": ("restart", "none", "none"),
    "given.cert": ("none", "none", "none"),
    "given.key": ("none", "none", "none"),
    "routes": ("object", "none", "none"),
    "limits": ("restart", "none", "none"),
    "size": ("none", "none", "refused"),
    "wait": ("restart", "none", "none"),
    "workers": ("none", "remove", "none"),
    "nothing": ("none", "none", "none"),
    "broken": ("none", "none", "none"),
}


def test_settings_are_found_in_the_branch_where_they_matter() -> None:
    """Optional groups given and left out, each choice, each switch, lists and maps empty and filled, counts at zero."""
    found = explore(app)
    assert {
        path: tuple(effect.value for effect in effects.values()) for path, effects in found.effects.items()
    } == WANTED
    assert found.unread == ("given.cert", "given.key", "nothing", "broken")


def test_kinds_and_secrets_are_found_in_every_branch() -> None:
    """The operator's rights come from them: an Ingress that only a filled list makes, a Secret that only a group names."""
    assert "Ingress" in {kind.kind for kind in kinds_of(app)}
    assert uses_secrets(app)


def test_the_lock_file_names_what_is_touched_and_what_is_not() -> None:
    """One line per setting and component, sorted, so that a widened restart is one line in review."""
    lines = lock_text(explore(app)).splitlines()
    assert "size\tstore\trefused" in lines
    assert "nothing\t-\tnone" in lines
    assert lines[1:] == sorted(lines[1:])


def test_a_sample_with_a_misspelt_setting_is_refused() -> None:
    """The server would drop it silently."""
    wrong = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things", sample={"imagee": "x"})
    with pytest.raises(
        AppError, match=r"test_explain_branches: sample\.imagee is no setting of Thing\ndid you mean image\?"
    ):
        sample_of(wrong)


def test_an_app_of_which_no_sample_can_be_made_up_asks_for_one() -> None:
    """A pattern that none of the tried texts has."""

    class Odd(Settings):
        code: str = setting(pattern="^[A-Z]{3}-[0-9]{4}$")

    with pytest.raises(AppError, match=r"no sample of Thing can be made up: spec\.code.*\ngive one"):
        sample_of(App(Odd, group="a.example.com", version="v1", kind="Thing", plural="things"))
