"""The checks that an author's commands make in other processes: clocks, dates, small sets, Services that nobody makes."""

from __future__ import annotations

import importlib
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from hanei import App, Container, Deployment, Settings, setting
from hanei.cli import purity
from hanei.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Check = Callable[[str], None]

HEAD = """
import datetime, hashlib, os, random, time, uuid
from hanei import App, Container, Deployment, Own, Service, Settings, StatefulSet, as_json, setting
class Spec(Settings):
    text: str = setting("a")
    day: datetime.date = setting(datetime.date(2026, 1, 2))
    moment: datetime.datetime = setting(datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc))
    on: bool = setting(False)
    names: set[str] = setting({"x", "y"})
app = App(Spec, group="a.example.com", version="v1", kind="Thing", plural="things")
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check an app whose components are this source."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def of(components: str) -> None:
        name = f"author_{abs(hash(components))}"
        (tmp_path / f"{name}.py").write_text(HEAD + textwrap.dedent(components))
        importlib.invalidate_caches()
        try:
            purity.check(importlib.import_module(name).app)
        finally:
            sys.modules.pop(name, None)

    return of


def web(expression: str) -> str:
    return f"""
@app.component
def web(spec: Spec, own: Own) -> Deployment:
    return Deployment(containers=[Container(image="nginx", env={{"A": {expression}}})])
"""


IMPURE = {
    "the time as text": 'time.strftime("%Y-%m-%d")',
    "the local time": "str(time.localtime().tm_yday)",
    "the time in nanoseconds": "time.time_ns()",
    "today": "str(datetime.date.today())",
    "now with a zone": "str(datetime.datetime.now(datetime.timezone.utc).year)",
    "a monotonic clock": "time.monotonic()",
    "the identity of an object": "id(spec)",
    "a random number": "random.random()",
    "an id made up": "str(uuid.uuid4())",
    "the process": "os.getpid()",
    "a hash": "hash(spec.text)",
    "the order of a set": '"".join({"a", "b", "c", "d", "e", "f", "g"})',
    "the order of a set of the settings": '"".join(spec.names | {"a", "b", "c", "d", "e", "f", "g"})',
    "a random number in one branch only": 'random.random() if spec.on else "steady"',
}


@pytest.mark.parametrize("case", IMPURE)
def test_what_differs_from_process_to_process_is_refused(check: Check, case: str) -> None:
    """Module, component and field are named."""
    with pytest.raises(AppError, match=r"component web \(author_[0-9]+\): containers.* differs") as caught:
        check(web(IMPURE[case]))
    assert "pure function" in caught.value.hint


PURE = {
    "a constant": '"a"',
    "settings of dates": "f'{spec.day} {spec.moment.isoformat()}'",
    "dates that are compared": "isinstance(spec.day, datetime.date) and isinstance(spec.moment, datetime.datetime)",
    "a date that is given": "str(datetime.date(2026, 1, 1) + datetime.timedelta(days=1))",
    "a sorted set": '"".join(sorted(spec.names))',
    "a digest": "hashlib.sha256(spec.text.encode()).hexdigest()",
    "a file of all settings": "as_json(spec)",
}


def test_what_is_pure_passes(check: Check) -> None:
    """Also with settings of dates, under a shifted clock. One component each, in one app: processes are dear."""
    check(
        "".join(web(expression).replace("def web", f"def web{index}") for index, expression in enumerate(PURE.values()))
    )


ASKING = """
@app.component
def asker(spec: Spec, own: Own) -> Deployment:
    return Deployment(containers=[Container(image="nginx", env={"HOST": own.service("asked")})])

@app.component
def asked(spec: Spec, own: Own) -> Deployment | StatefulSet | None:
"""
ASKED = {
    "a component without any port": ('return Deployment(containers=[Container(image="x")])', False),
    "a component whose Service has another name": (
        'return Deployment(containers=[Container(image="x")], services=[Service(ports=[80], name="other")])',
        False,
    ),
    "a component with a Service": ('return Deployment(containers=[Container(image="x")], service=[80])', True),
    "a StatefulSet with ports": ('return StatefulSet(containers=[Container(image="x", ports=[80])])', True),
    "a Service that is switched on": (
        'return Deployment(containers=[Container(image="x")], service=[80] if spec.on else [])',
        True,
    ),
    "a component that is not wanted": ("return None", True),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_service_that_is_asked_for_must_be_made(check: Check, case: str) -> None:
    """`own.service(…)` of a component that never has one is refused when the app is checked."""
    body, fine = ASKED[case]
    source = f"{ASKING}    {body}\n"
    if fine:
        check(source)
        return
    with pytest.raises(
        AppError, match=r"component asker \(author_[0-9]+\): own\.service\('asked'\): component asked has no Service"
    ):
        check(source)


def test_a_component_that_fails_with_the_sample_is_told_as_such(check: Check) -> None:
    """Not as a second process that failed."""
    with pytest.raises(AppError, match=r"component web \(author_[0-9]+\): raised ZeroDivisionError"):
        check(web("1 / 0"))


class Plain(Settings):
    image: str = setting("nginx")


def test_an_app_that_no_other_process_can_import_is_checked_in_this_one() -> None:
    """Made inside a function: it is called twice here, and that is all that can be done."""
    app: App[Plain] = App(Plain, group="a.example.com", version="v1", kind="Thing", plural="things")
    app.component("web")(lambda spec, own: Deployment(containers=[Container(image=spec.image)]))
    purity.check(app)


def test_a_child_that_never_answers_is_given_up(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a message, and nothing is left running."""
    monkeypatch.setattr(purity, "TIME_OUT", 0.0)
    with pytest.raises(AppError, match="took longer than 0 s"):
        check(web('"a"'))
