"""Reading published SHA-256 sums in the three forms in which the projects publish them: pure.

Kubernetes has a file beside each binary, etcd one list for all files of a release, KWOK none of its own, but the release
page's index carries a digest for every file. Each function returns the sum in lower-case hex, or None where the text
holds none for the file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[str, str], str | None]
    """(text, file name) → sum."""

_HEX = re.compile(r"[0-9a-f]{64}")


def beside(text: str, file: str) -> str | None:
    """A file that holds the sum of the one file it is named after."""
    return _sum(text.split()[0]) if text.split() else None


def listed(text: str, file: str) -> str | None:
    """Lines of ``sum  name``, as sha256sum writes them."""
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[1].lstrip("*") == file:
            return _sum(parts[0])
    return None


def indexed(text: str, file: str) -> str | None:
    """The JSON of a GitHub release: ``assets[].digest`` is ``sha256:<sum>``."""
    try:
        assets = json.loads(text)["assets"]
        digests = {asset["name"]: asset.get("digest") or "" for asset in assets}
    except (ValueError, KeyError, TypeError):
        return None
    kind, _, value = digests.get(file, "").partition(":")
    return _sum(value) if kind == "sha256" else None


def _sum(text: str) -> str | None:
    text = text.lower()
    return text if _HEX.fullmatch(text) else None
