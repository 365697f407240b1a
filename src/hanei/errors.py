"""Every error that Hanei raises on purpose, in one tree.

::

    HaneiError                     message for people; `hint` says what would be right
    ├── WrongUse                   the user's input is wrong: exit code 2
    ├── AppError                   the author's declaration is wrong: module, component, field
    │   └── RenderError            one component could not be rendered for these settings
    ├── SettingsInvalid            settings do not fit the schema: every problem with its path
    ├── ClusterError               the local cluster cannot be made or reached
    ├── ConfigError                kubeconfig or in-cluster configuration is unusable
    ├── LeaderLost                 the Lease went to somebody else
    └── ApiError                   an answer (or none) of the API server; see `hanei.kube.errors`
        ├── Retryable              trying again later may succeed
        └── Terminal               trying the same again cannot succeed

Whether trying again makes sense is a type, never a flag. Causes are chained with ``from``.
Nothing here imports anything of Hanei, so every layer may raise and catch these.
"""

from __future__ import annotations


class HaneiError(Exception):
    """Base of all. `str(error)` is the message for people, with the hint on a second line if there is one."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class WrongUse(HaneiError):
    """The user asked for something that cannot be meant: wrong file, field, name or option."""


class AppError(HaneiError):
    """The author's declaration is wrong. The message names module, component and field."""


class RenderError(AppError):
    """One component could not be rendered for these settings; the others go on.

    `component` is its name, `field` the part of its result that is wrong ("" if it raised).
    """

    def __init__(self, message: str, *, component: str, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.component = component
        self.field = field


class SettingsInvalid(HaneiError):
    """Settings do not fit their schema. `problems` is a tuple of (dotted path, what is wrong)."""

    def __init__(self, problems: tuple[tuple[str, str], ...], *, where: str = "") -> None:
        lines = "; ".join(f"{path}: {what}" for path, what in problems)
        super().__init__(f"{where}: {lines}" if where else lines)
        self.problems = problems


class ClusterError(HaneiError):
    """The local cluster cannot be built, started or reached."""


class ConfigError(HaneiError):
    """A kubeconfig or the in-cluster configuration is missing or unusable."""


class LeaderLost(HaneiError):
    """The Lease is held by somebody else: stop writing."""


class ApiError(HaneiError):
    """The API server refused, failed, or did not answer. `status` is the HTTP code, 0 if there was none."""

    status: int = 0


class Retryable(ApiError):
    """Trying again later may succeed."""


class Terminal(ApiError):
    """Trying the same again cannot succeed."""
