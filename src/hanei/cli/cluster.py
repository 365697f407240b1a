"""``hanei cluster``: a local Kubernetes for tests and demos, brought up, shown, and stopped again.

Only what people see is here: options, progress and tables. `hanei.cluster` does the work and is imported by the command
that needs it, so that the help stays quick.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

import click

from hanei.errors import ClusterError, WrongUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    import rich.progress

    from hanei.cluster import Progress, Status

_NAME = click.argument("name", default="default")
_QUIET_SECONDS = 15.0
"""Between two lines about the same work when nobody watches a terminal."""


@click.group("cluster")
def command() -> None:
    """A local Kubernetes control plane, for tests and demos.

    etcd, API server, controllers and scheduler are the real ones. Nodes are simulated: pods become Ready, but nothing
    runs in them.

    An existing cluster (kind, k3s, any other) gets a name here by `up --kubeconfig`. Where HANEI_KUBECONFIG is set, it is
    used for every name instead.
    """


@command.command()
@_NAME
@click.option(
    "--node",
    type=click.Choice(["simulated", "real", "none"]),
    help="What pods run on: `simulated` unless given; `none` is etcd and API server only; `real` comes later.",
)
@click.option("--kubeconfig", type=click.Path(), help="Use the existing cluster of this kubeconfig, under this NAME.")
@click.option("--context", help="The kubeconfig's context to use; its current one unless given.")
def up(name: str, node: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Start the cluster NAME (`default`), or find it running; returns when it answers.

    The first time, its binaries are taken from KUBEBUILDER_ASSETS, downloaded, or built with Go (minutes, once).
    """
    from hanei import cluster

    with _progress() as progress:
        started = cluster.up(name, node=node, kubeconfig=kubeconfig, context=context, progress=progress)
    click.echo(f"cluster {started.name} answers at {started.server}, node {started.node}", err=True)
    click.echo(f"use it with: export KUBECONFIG={started.kubeconfig}", err=True)


@command.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Every local cluster.")
@click.option("--stale", is_flag=True, help="Only what is left of clusters whose programs are gone.")
def down(name: str | None, everything: bool, stale: bool) -> None:
    """Stop the cluster NAME (`default`) and remove its data. An existing cluster is only forgotten, and runs on."""
    from hanei import cluster

    if sum((name is not None, everything, stale)) > 1:
        raise WrongUse("give a name, --all or --stale, only one of them")
    states = {row.name: row.state for row in cluster.status()}
    if everything or stale:
        names = [each for each, state in states.items() if everything or state is cluster.State.STALE]
    else:
        names = [name or "default"]
    for each in names:
        done = "forgotten and runs on" if states.get(each) is cluster.State.REGISTERED else "stopped"
        click.echo(f"cluster {each} is {done if cluster.down(each) else 'not there'}", err=True)


@command.command()
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def status(output: str) -> None:
    """List the clusters of this machine's user: local ones, and existing ones that have a name here."""
    from hanei import cluster

    rows = cluster.status()
    if output == "json":
        click.echo(json.dumps([_as_json(row) for row in rows], indent=2))
    elif not rows:
        click.echo("no local cluster; start one with: hanei cluster up", err=True)
    else:
        _table([("NAME", "STATE", "NODE", "SERVER", "KUBECONFIG"), *(_cells(row) for row in rows)])


@command.command()
@_NAME
def kubeconfig(name: str) -> None:
    """Print the path of the kubeconfig of the running cluster NAME (`default`)."""
    from hanei import cluster

    found = cluster.find(name)
    if found is None:
        raise ClusterError(f"cluster {name} does not run", hint=f"start it with: hanei cluster up {name}")
    click.echo(found.kubeconfig)


@command.command()
def prepare() -> None:
    """Get the binaries without starting anything; `up` is then a matter of seconds."""
    from hanei import cluster

    with _progress() as progress:
        found = cluster.prepare(progress)
    click.echo(f"ready: {', '.join(sorted(found))}", err=True)


def _as_json(row: Status) -> dict[str, str | None]:
    running = row.cluster
    return {
        "name": row.name,
        "state": str(row.state),
        "node": str(running.node) if running else None,
        "server": running.server if running else None,
        "kubeconfig": str(running.kubeconfig) if running else None,
        "folder": str(row.folder),
    }


def _cells(row: Status) -> tuple[str, ...]:
    found = _as_json(row)
    return tuple(found[name] or "-" for name in ("name", "state", "node", "server", "kubeconfig"))


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A bar for a terminal, sparse lines for a log. SIGTERM ends like Ctrl-C, so that nothing stays half-made."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        if sys.stderr.isatty():
            yield from _bars()
        else:
            yield _Lines()
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _bars() -> Iterator[Progress]:
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn())
    with rich.Progress(*columns, rich.TimeElapsedColumn(), console=Console(stderr=True), transient=True) as display:
        yield _Bars(display)


class _Bars:
    """One bar for each piece of work; notes stay above them."""

    def __init__(self, display: rich.progress.Progress) -> None:
        self._display = display
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def note(self, text: str) -> None:
        self._display.console.print(text, markup=False, highlight=False)

    def part(self, text: str, done: int, total: int) -> None:
        if text not in self._tasks:
            self._tasks[text] = self._display.add_task(text, total=total or None)
        self._display.update(self._tasks[text], completed=done, visible=not total or done < total)


class _Lines:
    """A line for each note, and one now and then for work that goes on."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def note(self, text: str) -> None:
        self._last = time.monotonic()
        click.echo(text, err=True)

    def part(self, text: str, done: int, total: int) -> None:
        if time.monotonic() - self._last >= _QUIET_SECONDS:
            self.note(f"{text}: {100 * done // total} %" if total else text)
