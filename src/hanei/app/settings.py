"""Settings: what an author declares and a user may change.

A `Settings` class is a pydantic model. From it come the CRD's schema (`hanei.crd`), the validation in the operator
and in the command line, and the list of leaves that `explain` and `plan` speak about. Nothing here renders or reads
anything; a value of a `Settings` class is frozen.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pydantic
from pydantic_core import CoreSchema, PydanticUndefined, SchemaError, SchemaValidator, core_schema

from hanei.errors import AppError, SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

SettingClass = Literal["setting", "image", "rights"]
EXTRA = "x-hanei"
RULES = "x-hanei-rules"
RESERVED = ("suspend", "rollout")
"""Top-level fields of every resource's `spec` that are Hanei's: part of the CRD, never part of the settings."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that the API server checks: a CEL expression over `self`, and what to say when it does not hold."""

    expression: str
    message: str = ""
    field_path: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """What a setting says about itself to people and to the schema."""

    doc: str = ""
    label: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    klass: SettingClass = "setting"
    secret: bool = False
    rules: tuple[Rule, ...] = ()
    keys: tuple[str, ...] = ()
    format: str = ""


class Settings(pydantic.BaseModel):
    """Base of every settings model. Values are frozen; fields that the schema does not know are ignored.

    `rules` holds CEL rules over several fields, checked by the API server:
    ``rules = (Rule("self.low <= self.high", "low must not exceed high"),)``.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True,
        use_attribute_docstrings=True, allow_inf_nan=False,
    )  # fmt: skip
    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: pydantic.GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        handler.resolve_ref_schema(found)[RULES] = [asdict(rule) for rule in cls.rules]
        return found

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        names: dict[str, str] = {}
        changed = False
        for name, info in cls.model_fields.items():
            where = f"{cls.__module__}.{cls.__qualname__}.{name}"
            _refuse_secret_values(where, info.annotation)
            _check_name(where, info.alias or name, names)
            changed |= _check_default(where, info)
        if changed:
            cls.model_rebuild(force=True)


def setting(
    default: Any = PydanticUndefined, *, default_factory: Callable[[], Any] | None = None, alias: str | None = None,
    doc: str = "", label: str | Mapping[str, str] | None = None, unit: str = "", klass: SettingClass = "setting",
    secret: bool = False, rules: Sequence[Rule] = (), keys: Sequence[str] = (), format: str = "",  # noqa: A002 - OpenAPI's own word
    ge: float | None = None, gt: float | None = None, le: float | None = None, lt: float | None = None,
    multiple_of: float | None = None, min_length: int | None = None, max_length: int | None = None, pattern: str | None = None,
) -> Any:  # fmt: skip
    """Declare one setting of a `Settings` class.

    `doc` says what it does, `label` is its name for people (a text, or texts by language: ``{"en": …, "ja": …}``),
    `unit` what a number counts ("s", "MiB"). `klass` says who may change it: `setting` (the settings page too), `image`
    or `rights` (cluster users only: who sets an image runs code). `secret=True` marks a text that *names* a Secret; a
    setting never holds a secret value. `keys` are the fields that tell the items of a list of `Settings` apart.
    `format` is OpenAPI's format ("int32", "hostname", …). The bounds are pydantic's.
    """
    if pattern is not None:
        _check_pattern(pattern, str(sys._getframe(1).f_globals.get("__name__", "")))
    labels = {"en": label} if isinstance(label, str) else dict(label or {})
    about = About(doc, labels, unit, klass, secret, tuple(rules), tuple(keys), format)
    options: dict[str, Any] = {
        "alias": alias, "description": doc or None, "ge": ge, "gt": gt, "le": le, "lt": lt, "multiple_of": multiple_of,
        "min_length": min_length, "max_length": max_length, "pattern": pattern, "json_schema_extra": {EXTRA: asdict(about)},
    }  # fmt: skip
    if default_factory is not None:
        return pydantic.Field(default_factory=default_factory, **options)
    return pydantic.Field(default, **options)


def _check_pattern(pattern: str, module: str) -> None:
    """pydantic's own engine is of the same family as the API server's: neither knows look-around or back-references."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].removeprefix("error: ")
        raise AppError(
            f"{module}: the pattern {pattern!r} of a setting cannot be checked: {reason}",
            hint="write it without look-around and back-references, or add a Rule",
        ) from error


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: a leaf path under `spec`, with what is declared about it."""

    path: str
    annotation: Any
    about: About
    required: bool
    default: Any


def about(info: FieldInfo) -> About:
    """What `setting()` was told for this field; an empty `About` where a plain pydantic field stands."""
    extra = info.json_schema_extra
    found: Any = extra.get(EXTRA) if isinstance(extra, dict) else None
    known = About(**{**found, "rules": tuple(Rule(**rule) for rule in found["rules"])}) if found else About()
    if not known.doc and info.description:
        return About(
            info.description, known.label, known.unit, known.klass, known.secret, known.rules, known.keys, known.format
        )
    return known


def nested(annotation: Any) -> type[Settings] | None:
    """The `Settings` class that an annotation names (also inside `… | None`), or None."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    arguments = [item for item in getattr(annotation, "__args__", ()) if item is not type(None)]
    if len(arguments) == 1 and type(None) in getattr(annotation, "__args__", ()):
        return nested(arguments[0])
    return None


def leaves(model: type[Settings], prefix: str = "", required: bool = True) -> Iterator[Leaf]:
    """Every leaf of a settings model, in order of declaration; lists and maps are one leaf."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        inner = nested(info.annotation)
        if inner is not None:
            yield from leaves(inner, path + ".", required and info.is_required())
            continue
        default = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
        yield Leaf(path, info.annotation, about(info), required and info.is_required(), default)


def validate(model: type[Settings], values: Mapping[str, Any], where: str = "spec") -> Settings:
    """The settings in `values` (JSON values), checked strictly. Raises `SettingsInvalid` with every problem's path."""
    import orjson

    try:
        return model.model_validate_json(orjson.dumps(values), strict=True)
    except pydantic.ValidationError as error:
        problems = tuple((_path(where, item["loc"]), _problem(item)) for item in error.errors(include_url=False))
        raise SettingsInvalid(problems) from error
    except (TypeError, orjson.JSONEncodeError) as error:
        raise SettingsInvalid(((where, f"is not JSON: {error}"),)) from error


def _path(where: str, location: tuple[int | str, ...]) -> str:
    text = where
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text


def _problem(item: Any) -> str:
    kind, found, context = item["type"], item.get("input"), item.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind in ("enum", "literal_error"):
        return f"found {found!r}, expected one of {context.get('expected')}"
    if kind == "value_error":
        return str(context.get("error", item["msg"]))
    shown = "" if isinstance(found, dict | list) else f"found {found!r}: "
    message = str(item["msg"])
    return f"{shown}{message[0].lower()}{message[1:]}"


_SECRET_TYPES = (pydantic.SecretStr, pydantic.SecretBytes)


_NAME = re.compile(r"[A-Za-z_][-A-Za-z0-9_]*")


def _check_name(where: str, name: str, names: dict[str, str]) -> None:
    """A name that a dotted path can hold, and no second one like it."""
    if not _NAME.fullmatch(name):
        raise AppError(f"{where}: {name!r} cannot be the name of a setting", hint="use letters, digits, '-' and '_'")
    if name in names:
        raise AppError(f"{where}: the name {name!r} is already taken by {names[name].rpartition('.')[2]}")
    names[name] = where


def _check_default(where: str, info: FieldInfo) -> bool:
    """A default must be a valid value itself: the API server refuses a CRD where it is not. True if it became another
    type: the text of a Quantity is one then, as it is when it comes from a resource."""
    if info.default is PydanticUndefined:
        return False
    declared: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    try:
        found = pydantic.TypeAdapter(declared).validate_python(info.default)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _path("", first["loc"])
        raise AppError(
            f"{where}: the default {info.default!r} is not valid: {place.lstrip('.')}{': ' if place else ''}{_problem(first)}"
        ) from error
    except pydantic.errors.PydanticUserError:
        return False  # a name that is not known yet, or a type that the schema refuses with its own words
    changed = type(found) is not type(info.default)
    info.default = found
    return changed


def _refuse_secret_values(where: str, annotation: Any) -> None:
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    if any(item in _SECRET_TYPES for item in candidates):
        raise AppError(
            f"{where}: a setting cannot hold a secret value",
            hint="let the setting name a Secret, setting(secret=True), and pass it on with secret(name, key)",
        )
