"""Starting programs that outlive us, and stopping exactly those.

A program is started in a session of its own and leaves ``pids/<name>`` and ``logs/<name>.log`` in the cluster's folder.
A pid alone proves nothing (numbers are used again), so a process counts as ours only while its command line names the
cluster's folder. Linux only: ``/proc`` is read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanei.cluster.commands import Command

_POLL = 0.02
"""Seconds between two looks at a process that is ending."""

# The shell records the pid of what it becomes before anything else can happen, then leaves: the program belongs to
# init from the start, so it neither ends with us nor stays behind as our zombie.
_LAUNCH = 'pid_file=$0; log=$1; shift; exec "$@" </dev/null >>"$log" 2>&1 & echo $! >"$pid_file"'


def start(folder: Path, command: Command) -> None:
    """Start one program detached; it may still fail, which `alive` tells."""
    pid_file = folder / "pids" / command.name
    log = folder / "logs" / f"{command.name}.log"
    for place in (pid_file, log):
        place.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(  # noqa: S603  the programs are ours, found by the providers
        ["/bin/sh", "-c", _LAUNCH, str(pid_file), str(log), *command.argv],
        check=True,
        start_new_session=True,
        cwd=folder,
        env={**os.environ, **command.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def pid(folder: Path, name: str) -> int | None:
    """The pid of the cluster's program `name` while it runs, else None."""
    try:
        number = int((folder / "pids" / name).read_text())
    except (OSError, ValueError):
        return None
    return number if _is_of(folder, number) else None


def started(folder: Path) -> list[str]:
    """Names of the programs that were ever started here."""
    return sorted(entry.name for entry in (folder / "pids").glob("*"))


def log_tail(folder: Path, name: str, lines: int = 5) -> str:
    """The last lines that a program wrote."""
    try:
        text = (folder / "logs" / f"{name}.log").read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def stop(folder: Path, names: Iterable[str], *, grace: float = 3.0) -> None:
    """Ask all of `names` to end, wait `grace` seconds for them, then kill those that did not."""
    running = {name: number for name in names if (number := pid(folder, name)) is not None}
    for number in running.values():
        _signal(number, signal.SIGTERM)
    if not _ended(folder, running.values(), grace):
        for name in running:
            if (number := pid(folder, name)) is not None:
                _signal(number, signal.SIGKILL)
        _ended(folder, running.values(), grace)
    for name in names:
        (folder / "pids" / name).unlink(missing_ok=True)


def _ended(folder: Path, numbers: Iterable[int], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while any(_is_of(folder, number) for number in numbers):
        if time.monotonic() > limit:
            return False
        time.sleep(_POLL)
    return True


def _is_of(folder: Path, number: int) -> bool:
    """Whether this process runs, and with an argument below the folder."""
    below = os.fsencode(folder) + b"/"
    arguments = _arguments(number)
    return any(argument.startswith(b"--") and argument.partition(b"=")[2].startswith(below) for argument in arguments)


def _arguments(number: int) -> list[bytes]:
    """The command line of a living process, else nothing."""
    limit = time.monotonic() + 1.0
    while time.monotonic() < limit:
        try:
            line = Path(f"/proc/{number}/cmdline").read_bytes()
            # The state follows the program's name, which stands in parentheses and may hold anything.
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return []
        if line or state in "ZX":
            return line.split(b"\0")
        # Neither dead nor with a command line: it is becoming another program at this moment.
        time.sleep(_POLL)
    return []


def _signal(number: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, which)
