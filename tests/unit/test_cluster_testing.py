"""Sharing one cluster between test processes: the last one out stops it, and the killed ones do not count."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hanei.testing import shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOIN = "import sys; from hanei.testing import shared; shared.join(sys.argv[1]); print(flush=True); input()"


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the clusters that were stopped."""
    names: list[str] = []
    monkeypatch.setenv("HANEI_HOME", str(tmp_path))
    monkeypatch.setattr(shared, "down", names.append)
    return names


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that uses the cluster test-one, until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", JOIN, "test-one"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_the_last_one_out_stops_the_cluster(stopped: list[str]) -> None:
    """And only once."""
    shared.join("test-one")
    shared.leave("test-one")
    assert stopped == ["test-one"]
    shared.sweep()
    assert stopped == ["test-one"]


def test_a_cluster_that_another_process_uses_stays(other: subprocess.Popen[bytes], stopped: list[str]) -> None:
    """As long as that process lives, however it ends."""
    shared.join("test-one")
    shared.leave("test-one")
    shared.sweep()
    assert stopped == []
    other.kill()
    other.wait()
    shared.sweep()
    assert stopped == ["test-one"]


def test_a_cluster_that_is_not_a_test_sessions_is_never_stopped(stopped: list[str]) -> None:
    """Whoever keeps one running for quick loops finds it again."""
    shared.join("test")
    shared.leave("test")
    assert stopped == []
