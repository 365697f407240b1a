"""Change a setting, and exactly the pods that use it restart.

This is the public API for authors of applications. Names are imported when they are first used, so that the command
line starts without loading pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanei.app.application import App, Column, Seen, SeenPod
    from hanei.app.files import FieldRef, SecretRef, as_env, as_ini, as_json, as_yaml, secret
    from hanei.app.own import Own
    from hanei.app.settings import Rule, Settings, setting
    from hanei.app.types import Duration, IntOrString, Quantity
    from hanei.app.workloads import (
        Claim,
        Container,
        Deployment,
        ExistingClaim,
        HostPath,
        Ingress,
        Port,
        Probe,
        Right,
        Scratch,
        Service,
        StatefulSet,
    )
    from hanei.kinds import Kind

_HOME = {
    "hanei.app.application": ("App", "Column", "Seen", "SeenPod"),
    "hanei.app.files": ("FieldRef", "SecretRef", "as_env", "as_ini", "as_json", "as_yaml", "secret"),
    "hanei.app.own": ("Own",),
    "hanei.app.settings": ("Rule", "Settings", "setting"),
    "hanei.app.types": ("Duration", "IntOrString", "Quantity"),
    "hanei.app.workloads": (
        "Claim", "Container", "Deployment", "ExistingClaim", "HostPath", "Ingress", "Port", "Probe", "Right", "Scratch", "Service",
        "StatefulSet",
    ),
    "hanei.kinds": ("Kind",),
}  # fmt: skip
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "App", "Claim", "Column", "Container", "Deployment", "Duration", "ExistingClaim", "FieldRef", "HostPath", "Ingress", "IntOrString",
    "Kind", "Own", "Port", "Probe", "Quantity", "Right", "Rule", "Scratch", "SecretRef", "Seen", "SeenPod", "Service", "Settings",
    "StatefulSet", "as_env", "as_ini", "as_json", "as_yaml", "secret", "setting",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'hanei' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
