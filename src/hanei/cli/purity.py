"""Is every component a pure function? Asked in a second process, with another hash seed and another clock.

Run by the commands that an author uses (`crd`, `explain`, `rbac`) and by `run` before it starts. What only differs
within one process is found by rendering twice (`render(verify=True)`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson

from hanei.errors import AppError

if TYPE_CHECKING:
    from hanei.app.application import App

TIME_OUT = 60.0
_CHILD = """
import datetime, sys, time
REAL, SHIFT = time.time, 400 * 86400 + 12345
time.time = lambda: REAL() + SHIFT
time.time_ns = lambda: int(time.time() * 1e9)
class Later(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(REAL() + SHIFT, tz)
    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(REAL() + SHIFT, datetime.timezone.utc).replace(tzinfo=None)
    @classmethod
    def today(cls):
        return cls.now()
class Day(datetime.date):
    @classmethod
    def today(cls):
        return Later.now().date()
datetime.datetime, datetime.date = Later, Day
sys.path[:0] = {path!r}
import importlib
from hanei.cli.purity import fingerprint
app = next(item for item in vars(importlib.import_module({module!r})).values() if type(item).__name__ == "App" and item.kind.plural == {plural!r})
sys.stdout.buffer.write(fingerprint(app))
"""


def check(app: App[Any]) -> None:
    """Raises `AppError` naming module, component and field where two processes disagree."""
    from hanei.plan.explore import sample_of
    from hanei.render.render import own_of, render

    for error in render(app, app.parse(sample_of(app)), own_of(app, "example", "default"), verify=True).errors:
        raise error
    module = app.module
    if module == "__main__":
        return
    here, there = orjson.loads(fingerprint(app)), orjson.loads(_elsewhere(app, module))
    for component, values in here.items():
        differing = [pair for pair in zip(values, there.get(component) or [None], strict=False) if pair[0] != pair[1]]
        if differing:
            field = _difference(*differing[0]) or "the result"
            raise AppError(
                f"component {component} ({app.components[component].module}): {field} differs in a second process with another hash seed and clock",
                hint="a component is a pure function of its settings: sort sets, and use no clock and no randomness",
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


def _elsewhere(app: App[Any], module: str) -> bytes:
    code = _CHILD.format(path=[path for path in sys.path if path], module=module, plural=app.kind.plural)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=TIME_OUT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise AppError(f"{module}: importing it in a second process failed: {last[0]}")
    return done.stdout


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
