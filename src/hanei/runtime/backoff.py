"""Growing waits with jitter, the one rule of it for informers, the Lease and the work queue.

Pure arithmetic over a random source that the caller owns; nothing here waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

_STEPS = 32
"""Doublings after which the exponent stops growing; any cap is reached long before."""


def delay(failures: int, *, base: float, cap: float, random: Random) -> float:
    """Seconds to wait after so many failures in a row (from 1): base · 2ⁿ, at most cap, less up to half at random."""
    full = min(cap, base * 2.0 ** min(failures - 1, _STEPS))
    return full * random.uniform(0.5, 1.0)


@dataclass(slots=True)
class Backoff:
    """The failures in a row of one thing that is tried for ever."""

    base: float
    cap: float
    random: Random = field(default_factory=Random)
    failures: int = 0

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure, but no less than the server asked for."""
        self.failures += 1
        return max(delay(self.failures, base=self.base, cap=self.cap, random=self.random), at_least or 0.0)

    def reset(self) -> None:
        self.failures = 0
