"""`App`: settings, components and the identity of the CRD, in one Python object.

An author makes one at import time; everything else in Hanei takes it as an input. Mistakes of the author are refused
here, with module, component and field.
"""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import pydantic

from hanei.app.files import plain
from hanei.app.settings import RESERVED, Settings, leaves, setting, validate
from hanei.app.workloads import Workload
from hanei.errors import AppError, SettingsInvalid
from hanei.kinds import Kind

S = TypeVar("S", bound=Settings)
ComponentFunction = Callable[..., Workload | None]
F = TypeVar("F", bound=Callable[..., Any])
_COMPONENT = re.compile(r"[a-z][a-z0-9]*")
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
STATUS_RESERVED = frozenset(
    ("conditions", "observedGeneration", "revision", "lastGoodRevision", "components", "replicas", "selector")
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`: its title and the JSON path that fills it."""

    name: str
    path: str
    type: str = ""
    doc: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """One registered component: its name, its function, and the module that a message names."""

    name: str
    function: ComponentFunction
    module: str


@dataclass(frozen=True, slots=True)
class SeenPod:
    """One pod of a resource, as `@app.status` sees it."""

    name: str
    component: str
    ready: bool
    hash: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was observed of a resource: its pods (those being deleted left out), ordered by name, and its settings.

    `settings` are those in force; None while none were ever accepted.
    """

    pods: tuple[SeenPod, ...] = ()
    settings: Any = None


class App(Generic[S]):
    """An application: one CRD and what it yields.

    `columns` are extra columns of `kubectl get`; `scale` is the path of the setting that `kubectl scale` changes;
    `sample` is the `spec` of an example resource, the base of `explain`; `makes` are the kinds that components put into
    `extra` beyond the typed ones; `history` is how many accepted specs are kept as records (0: none).

    Raises `AppError` where the declaration contradicts itself.
    """

    def __init__(
        self, settings: type[S], *, group: str, version: str, kind: str, plural: str, singular: str = "",
        short_names: Sequence[str] = (), categories: Sequence[str] = (), columns: Sequence[Column] = (), scale: str = "",
        sample: Mapping[str, Any] | None = None, makes: Sequence[Kind] = (), history: int = 10,
    ) -> None:  # fmt: skip
        self.settings = settings
        # Where the app is made, which a second process can import; messages name it too.
        self.module = str(sys._getframe(1).f_globals.get("__name__", settings.__module__))
        self.kind = Kind(group, version, kind, plural)
        self.singular = singular or kind.lower()
        self.short_names = tuple(short_names)
        self.categories = tuple(categories)
        self.columns = tuple(columns)
        self.scale = scale
        self.sample = dict(sample) if sample is not None else None
        self.makes = tuple(makes)
        self.history = history
        self.components: dict[str, Component] = {}
        self.status_function: Callable[[Seen], Any] | None = None
        self.status_model: type[Settings] | None = None
        self._status_field = ""
        self._check_identity()

    def __repr__(self) -> str:
        return f"App({self.kind.kind}.{self.kind.version}.{self.kind.group}: {', '.join(self.components) or 'no components yet'})"

    @overload
    def component(self, name: str) -> Callable[[F], F]: ...
    @overload
    def component(self, name: F) -> F: ...
    def component(self, name: str | Callable[..., Any]) -> Any:
        """Register a component: `@app.component` takes the function's name, `@app.component("main")` the given one."""
        if callable(name):
            return self._register(name.__name__, name)
        return lambda function: self._register(name, function)

    def status(self, function: F) -> F:
        """Register the app's own status: a pure function of `Seen`.

        It returns a `Settings` class whose fields go into `status`, or any other type: then its name is the one field.
        """
        where = f"{function.__module__}.{function.__name__}"
        if self.status_function is not None:
            raise AppError(f"{where}: @app.status is given twice ({self.status_function.__name__} is the first)")
        returned = typing.get_type_hints(function).get("return")
        if returned is None:
            raise AppError(
                f"{where}: @app.status needs a return annotation", hint="a Settings class, or the type of the one field"
            )
        if not (isinstance(returned, type) and issubclass(returned, Settings)):
            fields: Any = {function.__name__: (returned, setting(doc=(function.__doc__ or "").strip()))}
            self._status_field = function.__name__
            returned = pydantic.create_model(f"{self.kind.kind}Status", __base__=Settings, **fields)
        clash = sorted(STATUS_RESERVED.intersection(info.alias or name for name, info in returned.model_fields.items()))
        if clash:
            raise AppError(f"{where}: status field {clash[0]!r} is Hanei's own", hint="choose another name")
        self.status_function, self.status_model = function, returned
        return function

    def status_of(self, seen: Seen) -> dict[str, Any]:
        """The app's own status fields, as JSON values; {} without `@app.status`."""
        if self.status_function is None:
            return {}
        value = self.status_function(seen)
        fields = plain({self._status_field: value} if self._status_field else value)
        return typing.cast("dict[str, Any]", fields)

    def parse(self, spec: Mapping[str, Any]) -> S:
        """The settings in a `spec` of JSON values. Raises `SettingsInvalid` with a path for every problem."""
        settings = validate(self.settings, {key: value for key, value in spec.items() if key not in RESERVED})
        return typing.cast(S, settings)

    def _register(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        module = function.__module__
        if not _COMPONENT.fullmatch(name) or len(name) > 30:
            raise AppError(
                f"{module}: component {name!r}: a name is [a-z][a-z0-9]*, at most 30 characters",
                hint="no hyphen: names of objects are <resource>-<component>",
            )
        if name in self.components:
            raise AppError(
                f"{module}: component {name!r} is declared twice",
                hint=f"the first one is in {self.components[name].module}",
            )
        self.components[name] = Component(name, function, module)
        return function

    def _check_identity(self) -> None:
        kind, where = self.kind, f"{self.module}: App({self.settings.__name__})"
        if not _DNS.fullmatch(kind.group):
            raise AppError(f"{where}: group {kind.group!r} is no domain", hint='such as group="autolock.example.com"')
        if not re.fullmatch(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?", kind.version):
            raise AppError(f"{where}: version {kind.version!r} is none of v1, v1beta1, v1alpha1, …")
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", kind.kind):
            raise AppError(f"{where}: kind {kind.kind!r} is not written in CamelCase")
        for what, text in (
            ("plural", kind.plural),
            ("singular", self.singular),
            *(("short_names", text) for text in self.short_names),
        ):
            if not re.fullmatch(r"[a-z][a-z0-9]*", text):
                raise AppError(f"{where}: {what} {text!r}: lower-case letters and digits only")
        reserved = [
            info.alias or name for name, info in self.settings.model_fields.items() if (info.alias or name) in RESERVED
        ]
        if reserved:
            raise AppError(
                f"{where}: the setting {reserved[0]!r} is reserved",
                hint=f"Hanei adds {', '.join(RESERVED)} to every resource itself",
            )
        if self.history < 0:
            raise AppError(f"{where}: history={self.history} is negative")
        known = {leaf.path: leaf for leaf in leaves(self.settings)}
        if self.scale and (self.scale not in known or known[self.scale].annotation not in (int, int | None)):
            numbers = ", ".join(path for path, leaf in known.items() if leaf.annotation is int) or "none"
            raise AppError(
                f"{where}: scale={self.scale!r} is no whole-number setting", hint=f"whole numbers are: {numbers}"
            )
        if self.sample is not None:
            try:
                validate(self.settings, self.sample, "sample")
            except SettingsInvalid as error:
                raise AppError(f"{where}: the sample does not fit: {error}") from error
