"""`hanei run --tune`: knobs by name, mistakes named."""

from __future__ import annotations

import pytest

from hanei.errors import WrongUse
from hanei.settings import OperatorSettings, tuned


def test_knobs_are_turned_by_name() -> None:
    made = tuned(OperatorSettings(), ["workers=4", "watch_silence=1.5"])
    assert (made.workers, made.watch_silence, made.resync) == (4, 1.5, OperatorSettings().resync)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker=4", "turns no knob"),
        ("workers", "turns no knob"),
        ("workers=many", "workers: found 'many', expected a number such as 16"),
        ("lease_duration=1", "retry_period < renew_deadline < lease_duration"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        tuned(OperatorSettings(), [text])


def test_a_slip_is_guessed() -> None:
    with pytest.raises(WrongUse) as caught:
        tuned(OperatorSettings(), ["worker=4"])
    assert "workers=VALUE" in str(caught.value.hint)
