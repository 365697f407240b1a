"""Where clusters and binaries live on this machine.

``HANEI_HOME`` and ``HANEI_CACHE`` name the folders outright, else the XDG rules hold. Folders are named here and made
by those who write into them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hanei.cluster import versions
from hanei.errors import WrongUse

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def state() -> Path:
    """What Hanei remembers about this machine: clusters, locks."""
    return _folder("HANEI_HOME", "XDG_STATE_HOME", ".local/state")


def cache() -> Path:
    """What can be made again."""
    return _folder("HANEI_CACHE", "XDG_CACHE_HOME", ".cache")


def clusters() -> Path:
    return state() / "clusters"


def cluster(name: str) -> Path:
    """The folder of one cluster; WrongUse when the name would not be one plain folder."""
    if not _NAME.fullmatch(name):
        raise WrongUse(
            f"cluster name {name!r} cannot be used",
            hint="use 1 to 40 lower-case letters, digits and hyphens, as in: my-cluster-2",
        )
    return clusters() / name


def locks() -> Path:
    return state() / "locks"


def binaries() -> Path:
    """The folder of the programs of exactly these versions."""
    return cache() / "bin" / f"{versions.KUBERNETES}-{versions.key()}"


def _folder(own: str, xdg: str, fallback: str) -> Path:
    if named := os.environ.get(own):
        return Path(named).expanduser().absolute()
    base = os.environ.get(xdg)
    # The XDG rules say that a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / fallback
    return root / "hanei"
