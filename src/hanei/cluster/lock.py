"""One holder at a time across processes, by `flock` on a file.

The kernel lets go when the holder ends, however it ends, so a lock is never stale. The file is kept outside of what it
guards: a cluster's folder is removed while its lock is held. Whoever holds a lock may `discard` its file; those who
waited for it notice that theirs is no longer the one with the name, and take the new one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hanei.cluster import places
from hanei.cluster.progress import Progress, Silent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def held(name: str, progress: Progress | None = None, *, waiting: str = "") -> Iterator[None]:
    """Hold the lock `name`; `waiting` is noted when another process has it first."""
    descriptor = _take(_path(name), progress or Silent(), waiting)
    try:
        yield
    finally:
        os.close(descriptor)


def busy(name: str) -> bool:
    """Whether somebody holds the lock right now."""
    try:
        descriptor = os.open(_path(name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def discard(name: str) -> None:
    """Remove the file of a lock that the caller holds and nobody will need soon."""
    _path(name).unlink(missing_ok=True)


def _take(path: Path, progress: Progress, waiting: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _taken(descriptor):
                progress.note(waiting)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _path(name: str) -> Path:
    return places.locks() / f"{name}.lock"
