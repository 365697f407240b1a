"""Types of settings that Kubernetes knows and Python does not: `Quantity`, `Duration`, `IntOrString`.

Each is text with a checked form, so that a value stays as the user wrote it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema

if TYPE_CHECKING:
    import pydantic

_QUANTITY = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
_DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_UNITS = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9, "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Text(str):
    """Text with a checked form; also accepts a whole number where `numbers` says so."""

    __slots__ = ()
    form: str = ""
    what: str = ""
    numbers: bool = False

    @classmethod
    def _check(cls, value: object) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and cls.numbers:
            value = str(value)
        if not isinstance(value, str) or not re.match(cls.form, value):
            raise ValueError(f"found {value!r}, expected {cls.what}")
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._check, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if cls.numbers:
            return {"x-kubernetes-int-or-string": True, "pattern": cls.form}
        return {"type": "string", "pattern": cls.form, "maxLength": 64}


class Quantity(_Text):
    """An amount as Kubernetes writes it: `250Mi`, `1500m`, `2`. `number` is its value."""

    __slots__ = ()
    form, what, numbers = _QUANTITY, "an amount such as 250Mi, 500m or 2", True

    @property
    def number(self) -> Decimal:
        """The value in the base unit (bytes, cores, …)."""
        match = re.match(r"^([+-]?[0-9.]+)(.*)$", self)
        assert match is not None, self
        digits, unit = match.groups()
        return Decimal(digits) * _UNITS[unit] if unit in _UNITS else Decimal(str(self))


class Duration(_Text):
    """A length of time as Kubernetes writes it: `90s`, `5m`, `1h30m`. `seconds` is its value."""

    __slots__ = ()
    form, what = _DURATION, "a duration such as 90s, 5m or 1h30m"

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return sum(
            float(number) * _SECONDS[unit] for number, _, unit in re.findall(r"([0-9]+(\.[0-9]+)?)(ms|s|m|h)", self)
        )


class IntOrString(_Text):
    """A whole number or text, such as a port's number or name, or `25%`. Always text in Python."""

    __slots__ = ()
    form, what, numbers = r"^[A-Za-z0-9%._-]{1,63}$", "a number or a name", True
