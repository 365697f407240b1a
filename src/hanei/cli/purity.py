"""Is every component a pure function? Asked in a second process, with another hash seed and another clock.

Run by the commands that an author uses (`crd`, `explain`, `rbac`) and by `run` before it starts. What only differs
within one process is found by rendering twice (`render(verify=True)`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import orjson

from hanei.app.own import Own
from hanei.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanei.app.application import App

TIME_OUT = 60.0
_CHILD = """
import datetime, sys, time
sys.path[:0] = {path!r}
import importlib
from pydantic_core import core_schema
from hanei.cli.purity import fingerprint
REAL, SHIFT = time.time, 400 * 86400 + 12345
time.time = lambda: REAL() + SHIFT
time.time_ns = lambda: int(time.time() * 1e9)
def shifted(function):
    return lambda seconds=None: function(time.time() if seconds is None else seconds)
time.localtime, time.gmtime, time.ctime = map(shifted, (time.localtime, time.gmtime, time.ctime))
def strftime(form, when=None, real=time.strftime):
    return real(form, time.localtime() if when is None else when)
time.strftime = strftime
REAL_DATE = datetime.date
class Same(type):  # what the real class is, and what pydantic makes of it, this one is too
    def __instancecheck__(cls, value):
        return isinstance(value, cls.__base__)
    def __subclasscheck__(cls, other):
        return issubclass(other, cls.__base__)
class Later(datetime.datetime, metaclass=Same):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(REAL() + SHIFT, tz)
    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(REAL() + SHIFT, datetime.timezone.utc).replace(tzinfo=None)
    @classmethod
    def today(cls):
        return cls.now()
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return core_schema.date_schema() if cls.__base__ is REAL_DATE else core_schema.datetime_schema()
class Day(datetime.date, metaclass=Same):
    @classmethod
    def today(cls):
        return cls.fromtimestamp(REAL() + SHIFT)
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return core_schema.date_schema() if cls.__base__ is REAL_DATE else core_schema.datetime_schema()
datetime.datetime, datetime.date = Later, Day
app = getattr(importlib.import_module({module!r}), {name!r})
sys.stdout.buffer.write(fingerprint(app))
"""
_SEEDS = ("1", "2")
"""Hash seeds of the other processes: one alone would miss the order of a small set too often."""


@dataclass(frozen=True, slots=True)
class _Asking(Own):
    """An `Own` that remembers which Services it was asked for."""

    asked: set[str] = field(default_factory=set, compare=False)

    def service(self, component: str) -> str:
        name = Own.service(self, component)
        self.asked.add(component)
        return name


def check(app: App[Any]) -> None:
    """Raises `AppError` naming module, component and field where two processes disagree, or where a component asks for a
    Service that is never made."""
    from hanei.plan.explore import sample_of
    from hanei.render.render import own_of, render

    for error in render(app, app.parse(sample_of(app)), own_of(app, "example", "default"), verify=True).errors:
        raise error
    _check_services(app)
    place = _place(app)
    if place is None:
        return
    with _elsewhere(*place) as children:
        here = orjson.loads(fingerprint(app))
        for child in children:
            _compare(app, here, orjson.loads(_answer(place[0], child)))


def _compare(app: App[Any], here: dict[str, list[Any]], there: dict[str, list[Any]]) -> None:
    for component, values in here.items():
        differing = [pair for pair in zip(values, there.get(component) or [None], strict=False) if pair[0] != pair[1]]
        if differing:
            field = _difference(*differing[0]) or "the result"
            raise AppError(
                f"component {component} ({app.components[component].module}): {field} differs in a second process with another hash seed and clock",
                hint="a component is a pure function of its settings: sort sets, and use no clock and no randomness",
            )


def _check_services(app: App[Any]) -> None:
    """A Service that a component asks for by `own.service(name)` must be made in some variant of the sample."""
    from hanei.app import names
    from hanei.crd.definition import spec_schema
    from hanei.plan.explore import sample_of, variants_of
    from hanei.render.render import own_of, render_component

    plain = own_of(app, "example", "default")
    own = _Asking(**{item.name: getattr(plain, item.name) for item in fields(plain)})
    made: set[str] = set()
    running: set[str] = set()
    asked: dict[str, str] = {}
    for spec in variants_of(app, spec_schema(app), sample_of(app)):
        settings = app.parse(spec)
        for name, component in app.components.items():
            own.asked.clear()
            found = render_component(app, component, settings, own)
            asked |= dict.fromkeys(own.asked, name)
            running |= {name} if found.wanted else set()
            made |= {item.name for item in found.objects if item.kind.kind == "Service"}
    for target, asker in asked.items():
        if target in running and names.child("example", target) not in made:
            raise AppError(
                f"component {asker} ({app.components[asker].module}): own.service({target!r}): component {target} has no Service",
                hint=f"let {target} ask for one with service=[…]",
            )


def fingerprint(app: App[Any]) -> bytes:
    """What every component returns for the sample and each of its variants, as JSON."""
    from hanei.crd.definition import spec_schema
    from hanei.errors import RenderError
    from hanei.plan.explore import sample_of, variants_of
    from hanei.render.render import call, own_of

    schema, sample, own = spec_schema(app), sample_of(app), own_of(app, "example", "default")
    found: dict[str, list[Any]] = {name: [] for name in app.components}
    for spec in variants_of(app, schema, sample):
        settings = app.parse(spec)
        for name, component in app.components.items():
            try:
                value = call(component, settings, own)
            except RenderError as error:
                found[name].append(error.message)
            else:
                found[name].append(value.model_dump() if value is not None else None)
    return orjson.dumps(found, default=repr, option=orjson.OPT_SORT_KEYS)


def _place(app: App[Any]) -> tuple[str, str] | None:
    """(module, name) under which another process can import the app; None where it cannot."""
    modules = [app.module, *(name for name in sys.modules if name != app.module)]
    for module in modules:
        if module in sys.modules and module != "__main__":
            for name, value in list(vars(sys.modules[module]).items()):
                if value is app:
                    return module, name
    return None


@contextmanager
def _elsewhere(module: str, name: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Other processes that find the app's fingerprint, one per hash seed, side by side; none is left behind."""
    code = _CHILD.format(path=[path for path in sys.path if path], module=module, name=name)
    children = [
        subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in _SEEDS
        if seed != os.environ.get("PYTHONHASHSEED")
    ]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _answer(module: str, child: subprocess.Popen[bytes]) -> bytes:
    try:
        found, errors = child.communicate(timeout=TIME_OUT)
    except subprocess.TimeoutExpired as error:
        raise AppError(
            f"{module}: calling its components in a second process took longer than {TIME_OUT:.0f} s",
            hint="a component only computes: no network, no waiting",
        ) from error
    if child.returncode != 0:
        lines = [line for line in errors.decode(errors="replace").splitlines() if re.match(r"[A-Za-z_.]+(: |$)", line)]
        raise AppError(f"{module}: importing it in a second process failed: {lines[-1] if lines else 'no message'}")
    return found


def _difference(here: Any, there: Any, path: str = "") -> str:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                return _difference(here.get(key), there.get(key), f"{path}.{key}" if path else str(key))
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                return _difference(one, other, f"{path}[{index}]")
    return path
