"""Health, readiness and metrics over HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from hanei.errors import WrongUse
from hanei.observe.metrics import Metrics
from hanei.runtime.http import serving


class Probed:
    def __init__(self, *, wrong: list[str], missing: list[str]) -> None:
        self._wrong, self._missing = wrong, missing

    def health(self) -> list[str]:
        return self._wrong

    def readiness(self) -> list[str]:
        return self._missing

    def metrics_text(self) -> bytes:
        return Metrics().text()


async def _answers(probed: Probed) -> dict[str, tuple[int, str]]:
    answers = {}
    async with serving(probed, "127.0.0.1", 0) as (host, port), aiohttp.ClientSession() as session:
        for path in ("healthz", "readyz", "metrics"):
            async with session.get(f"http://{host}:{port}/{path}") as response:
                answers[path] = response.status, await response.text()
    return answers


async def test_all_well_is_200() -> None:
    """And metrics are text for Prometheus."""
    answers = await _answers(Probed(wrong=[], missing=[]))
    assert answers["healthz"] == answers["readyz"] == (200, "ok\n")
    assert "# TYPE hanei_leader gauge" in answers["metrics"][1]


async def test_what_is_wrong_is_503_with_the_reasons() -> None:
    """One per line; metrics are there all the same."""
    answers = await _answers(Probed(wrong=["deaf"], missing=["a", "b"]))
    assert answers["healthz"] == (503, "deaf\n")
    assert answers["readyz"] == (503, "a\nb\n")
    assert answers["metrics"][0] == 200


async def test_a_taken_port_says_what_to_do() -> None:
    """No traceback for a second operator on one machine."""
    probed = Probed(wrong=[], missing=[])
    async with serving(probed, "127.0.0.1", 0) as (_, port):
        with pytest.raises(WrongUse, match="another port"):
            async with serving(probed, "127.0.0.1", port):
                pass
