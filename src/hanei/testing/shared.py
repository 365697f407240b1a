"""One cluster for many processes: who uses it is written down, and the last one out stops it.

A user is a process, recorded by pid and start time, so one that was killed stops counting by itself; `sweep` stops
clusters of which only such users are left. Called by `hanei.testing.plugin`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hanei.cluster import Cluster, down, lock, places, up

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

PREFIX = "test-"
"""Clusters of test sessions; the plugin never touches others."""

_LOCK = "test-users"


def join(name: str) -> None:
    """Write this process down as a user, before it starts or finds the cluster."""
    with _guarded():
        _register(name)


def use(name: str) -> Cluster:
    """The running cluster `name`, with this process among its users."""
    join(name)
    return up(name)


def leave(name: str) -> None:
    """Strike this process out, and stop the cluster if no living user is left."""
    with _guarded():
        (_users(name) / _me()).unlink(missing_ok=True)
        _stop_if_unused(name)


def sweep() -> None:
    """Stop test clusters whose users are all gone: what sessions left that were killed."""
    with _guarded():
        for folder in _all().glob(f"{PREFIX}*"):
            _stop_if_unused(folder.name)


def _stop_if_unused(name: str) -> None:
    users = _users(name)
    if any(_alive(user) for user in _names(users)):
        return
    if name.startswith(PREFIX):
        down(name)
    shutil.rmtree(users, ignore_errors=True)


def _register(name: str) -> None:
    users = _users(name)
    users.mkdir(parents=True, exist_ok=True)
    (users / _me()).touch()


def _guarded() -> AbstractContextManager[None]:
    return lock.held(_LOCK)


def _all() -> Path:
    return places.state() / "users"


def _users(name: str) -> Path:
    return _all() / name


def _names(folder: Path) -> Iterable[str]:
    return [entry.name for entry in folder.glob("*")]


def _me() -> str:
    return f"{os.getpid()}-{_start_time(os.getpid())}"


def _alive(user: str) -> bool:
    number, _, started = user.partition("-")
    return _start_time(int(number)) == started


def _start_time(number: int) -> str:
    """Clock ticks between boot and the process's start; "" for none such. A pid is used again, the pair is not."""
    try:
        # The second field is the program's name in parentheses and may hold anything; start time is field 22.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
