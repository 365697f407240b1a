"""Logs that hold no secrets, and the operator's own knobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from hanei.errors import ConfigError
from hanei.observe.logs import redact, setup
from hanei.settings import OperatorSettings, documented

PROGRAM = """
import logging
from hanei.observe.logs import get_logger, setup
setup()
log = get_logger("test")
log.debug("Quiet")
log.info("Said", token="hunter2", key=("ns", "web"))
logging.getLogger("library").warning("Of a library")
try:
    password = "hunter3"
    raise ValueError("wrong")
except ValueError:
    log.exception("Crashed")
"""


def _logged(wanted: str) -> str:
    """What a process writes when HANEI_LOG is `wanted` and nobody looks at a terminal."""
    environ = {**os.environ, "HANEI_LOG": wanted}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("wanted", ["", "debug,json", "console", "debug,console"])
def test_sec16_no_line_holds_a_secret(wanted: str) -> None:
    """Neither in a field that is named like one nor in a traceback's local variables."""
    assert "hunter" not in _logged(wanted)


def test_without_a_terminal_each_line_is_one_object() -> None:
    """Those of libraries too; the level is info unless asked for otherwise."""
    lines = [json.loads(line) for line in _logged("").splitlines()]
    assert [(line["event"], line["level"], line["logger"]) for line in lines] == [
        ("Said", "info", "test"),
        ("Of a library", "warning", "library"),
        ("Crashed", "error", "test"),
    ]
    assert lines[0]["key"] == ["ns", "web"]
    assert json.loads(_logged("debug").splitlines()[0])["event"] == "Quiet"


def test_for_people_there_are_plain_lines() -> None:
    """With a traceback as Python writes it."""
    text = _logged("console")
    assert "Said" in text
    assert "ValueError: wrong" in text


def test_an_unknown_word_is_named_with_the_known_ones() -> None:
    """HANEI_LOG is typed by people."""
    with pytest.raises(ConfigError, match=r"(?s)'loud' is neither a level nor a format.*debug"):
        setup({"HANEI_LOG": "loud"})


def test_a_field_named_like_a_credential_is_blanked() -> None:
    """Whoever logs it."""
    assert redact(None, "info", {"token": "x", "event": "y"}) == {"token": "(hidden)", "event": "y"}


def test_every_knob_is_documented() -> None:
    """With its default, for the reference."""
    assert all(len(doc) > 10 for _, _, doc in documented())


def test_knobs_under_which_two_could_lead_are_refused() -> None:
    """The order of the Lease's times is what makes it safe."""
    with pytest.raises(ValueError, match="two could lead"):
        replace(OperatorSettings(), renew_deadline=20.0)
