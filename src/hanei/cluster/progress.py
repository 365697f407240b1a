"""How long work tells what it is doing: a protocol, and the silent one.

The library only calls it; drawing is the business of `hanei.cli.cluster`.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told by providers and by `up`; must be cheap, it is called often."""

    def note(self, text: str) -> None:
        """One thing began or turned out, as a short sentence without a full stop."""

    def part(self, text: str, done: int, total: int) -> None:
        """`text` is `done` of `total` through (bytes, packages); total 0 means unknown."""


class Silent:
    """Says nothing."""

    def note(self, text: str) -> None:
        pass

    def part(self, text: str, done: int, total: int) -> None:
        pass
