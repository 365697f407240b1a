"""Mistakes of an author: each is refused with module, component and field, when the app is made or when it is rendered."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from hanei import App, Claim, Container, Deployment, ExistingClaim, Ingress, Own, Settings, StatefulSet, secret, setting
from hanei.errors import AppError
from hanei.render.render import own_of, render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Spec(Settings):
    """One setting."""

    image: str = setting("nginx")


def make(**options: Any) -> App[Spec]:
    return App(Spec, **{"group": "a.example.com", "version": "v1", "kind": "Thing", "plural": "things"} | options)


def error_of(component: Callable[[Spec, Own], Any]) -> str:
    """What rendering says of a component named `lock`."""
    app = make()
    app.component("lock")(component)
    found = render(app, Spec(), own_of(app, "one", "default"))["lock"].error
    return str(found) if found else ""


DECLARATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a group that is no domain": ({"group": "nodots"}, "group 'nodots' is no domain"),
    "a version of another form": ({"version": "1.0"}, "version '1.0'"),
    "a kind in lower case": ({"kind": "thing"}, "kind 'thing' is not written in CamelCase"),
    "a plural with a capital": ({"plural": "Things"}, "plural 'Things'"),
    "a scale that is no number": ({"scale": "image"}, "scale='image' is no whole-number setting"),
    "a sample that does not fit": ({"sample": {"image": 1}}, "sample does not fit: sample.image"),
    "a negative history": ({"history": -1}, "history=-1 is negative"),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_a_declaration_that_contradicts_itself_is_refused(case: str) -> None:
    """The message names module, class and what is wrong."""
    options, message = DECLARATIONS[case]
    with pytest.raises(AppError, match=re.escape(message)) as caught:
        make(**options)
    assert "test_app_mistakes: App(Spec)" in str(caught.value)


def test_two_components_of_one_name_and_a_hyphen_are_refused() -> None:
    """Where the first one is stands in the hint."""
    app = make()
    app.component("lock")(lambda spec, own: None)
    with pytest.raises(AppError, match="component 'lock' is declared twice"):
        app.component("lock")(lambda spec, own: None)
    with pytest.raises(AppError, match="component 'my-lock': a name is"):
        app.component("my-lock")(lambda spec, own: None)


def test_reserved_settings_and_secret_values_are_refused() -> None:
    """`suspend` is Hanei's own; a setting never holds a secret."""

    class Reserved(Settings):
        suspend: bool = False

    with pytest.raises(AppError, match="'suspend' is reserved"):
        App(Reserved, group="a.example.com", version="v1", kind="Thing", plural="things")
    with pytest.raises(AppError, match=r"Leaky\.password: a setting cannot hold a secret value"):

        class Leaky(Settings):
            password: pydantic.SecretStr | None = None


def test_a_status_field_of_hanei_is_refused() -> None:
    """`conditions` is taken."""

    def conditions(seen: Any) -> list[str]:
        return []

    with pytest.raises(AppError, match="status field 'conditions' is Hanei's own"):
        make().status(conditions)


def pod(**options: Any) -> Container:
    return Container(image="nginx", **options)


RENDERED: dict[str, tuple[Callable[[Spec, Own], Any], list[str]]] = {
    "it raises": (lambda spec, own: 1 / 0, ["component lock (", "test_app_mistakes", "ZeroDivisionError"]),
    "it returns text": (lambda spec, own: "pod", ["returned a str", "Deployment, StatefulSet or None"]),
    "a misspelt field": (lambda spec, own: Deployment.model_validate({"containers": [pod()], "replica": 1}), ["Deployment.replica"]),
    "a field of a wrong type": (lambda spec, own: Deployment(containers=[pod(ports=["http"])]), ["ports"]),
    "an unknown component asked for": (lambda spec, own: Deployment(containers=[pod(env={"A": own.service("nobody")})]), ["own.service('nobody'): there is no such component"]),
    "an empty image": (lambda spec, own: Deployment(containers=[Container(image="")]), ["containers[0].image", "is empty"]),
    "one path twice": (lambda spec, own: Deployment(containers=[pod(files={"/a": "1"}, live_files={"/a": "2"})]), ["live_files['/a']", "already taken by files"]),
    "a path that is not plain": (lambda spec, own: Deployment(containers=[pod(files={"/a//b": "1"})]), ["files['/a//b']", "'/a/b'"]),
    "a relative path": (lambda spec, own: Deployment(containers=[pod(files={"a": "1"})]), ["files['a']", "absolute"]),
    "a look-alike hyphen in a path": (lambda spec, own: Deployment(containers=[pod(files={"/a\u2010b": "1"})]), ["U+2010", "position 2"]),
    "two containers of one name": (lambda spec, own: Deployment(containers=[pod(), pod(name="lock")]), ["containers[1].name", "'lock'"]),
    "a mount over another": (lambda spec, own: StatefulSet(containers=[pod(files={"/data": "1"})], claims=[Claim(size="1Gi", mount="/data")]), ["'/data' is mounted twice"]),
    "an exclusive claim under a rolling Deployment": (lambda spec, own: Deployment(containers=[pod(volumes={"/data": ExistingClaim(name="c")})]), ["ReadWriteOnce", "Recreate"]),
    "an ingress without its Service": (lambda spec, own: Deployment(containers=[pod()], ingress=[Ingress(port=80)]), ["ingress[0].port"]),
    "a label of Hanei's": (lambda spec, own: Deployment(containers=[pod()], labels={"hanei.dev/x": "1"}), ["labels['hanei.dev/x']"]),
    "an overlay of the name": (lambda spec, own: Deployment(containers=[pod()], overlay={"metadata": {"name": "x"}}), ["overlay.metadata.name"]),
    "an overlay of the selector": (lambda spec, own: Deployment(containers=[pod()], overlay={"spec": {"selector": {}}}), ["overlay.spec.selector"]),
    "an overlay of our labels": (lambda spec, own: Deployment(containers=[pod()], overlay={"spec": {"template": {"metadata": {"labels": {"hanei.dev/x": "1"}}}}}), ["overlay.spec.template.metadata.labels"]),
    "an extra object of an unknown kind": (lambda spec, own: Deployment(containers=[pod()], extra=[{"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "a"}}]), ["extra[0]", "App(makes="]),
    "an extra object elsewhere": (lambda spec, own: Deployment(containers=[pod()], extra=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}]), ["extra[0].metadata.namespace"]),
    "a cluster-wide extra object": (lambda spec, own: Deployment(containers=[pod()], extra=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}]), ["cluster-wide"]),
    "an extra object without a name": (lambda spec, own: Deployment(containers=[pod()], extra=[{"kind": "ConfigMap"}]), ["metadata.name"]),
    "a key of a Secret that cannot be": (lambda spec, own: Deployment(containers=[pod(env={"A": secret("s", "a b")})]), ["key"]),
    "privileged and restricted": (lambda spec, own: Deployment(containers=[pod(privileged=True, restricted=True)]), ["containers[0].privileged"]),
}  # fmt: skip


@pytest.mark.parametrize("case", RENDERED)
def test_a_component_that_is_wrong_names_itself_and_its_field(case: str) -> None:
    """The others go on; this one says what is wrong and where."""
    component, parts = RENDERED[case]
    message = error_of(component)
    assert "component lock" in message
    for part in parts:
        assert part in message, message


def test_two_components_that_make_one_object_are_told_apart() -> None:
    """The later one is refused; the first is complete."""
    app = make()
    app.component("one")(lambda spec, own: Deployment(name="same", containers=[pod()]))
    app.component("two")(lambda spec, own: Deployment(name="same", containers=[pod()]))
    found = render(app, Spec(), own_of(app, "r", "default"))
    assert found["one"].error is None
    assert (
        "component two (tests.unit.test_app_mistakes): name: Deployment 'same' is already made by component one"
        in str(found["two"].error)
    )


IMPURE = {"the date": "str(datetime.datetime.now())"}
"""One is enough here, by the command line; `test_purity_checks` has the others."""


@pytest.mark.parametrize("case", [*IMPURE, "nothing"])
def test_an_output_that_differs_in_a_second_process_is_refused(tmp_path: Path, case: str) -> None:
    """`hanei crd` tries another process, hash seed and clock; the message names module, component and field."""
    source = f"""
        import datetime, os, random, time, uuid
        from hanei import App, Container, Deployment, Own, Settings, setting
        class Spec(Settings):
            image: str = setting("nginx")
        app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
        @app.component
        def lock(spec: Spec, own: Own) -> Deployment:
            return Deployment(containers=[Container(image=spec.image, env={{"A": {IMPURE.get(case, "'constant'")}}})])
    """
    (tmp_path / "impure.py").write_text(textwrap.dedent(source))
    command = [sys.executable, "-m", "hanei.cli.main", "crd", "--app", "impure:app"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    if case == "nothing":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 1
        assert "component lock (impure)" in done.stderr
        assert "containers" in done.stderr
