"""`hanei cluster` as people call it; the work behind it is replaced by values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hanei import cluster
from hanei.cli.cluster import command
from hanei.cluster import Cluster, Node, State, Status
from hanei.errors import ClusterError, WrongUse

RUNNING = Cluster("dev", Path("/c/dev"), Path("/c/dev/kubeconfig"), "https://127.0.0.1:1", None, Node.SIMULATED)
ROWS = [Status("dev", State.RUNNING, Path("/c/dev"), RUNNING), Status("old", State.STALE, Path("/c/old"), None)]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two clusters, one of them stale; returns the names that `down` is called with."""
    names: list[str] = []

    def down(name: str) -> bool:
        names.append(name)
        return name != "none-such"

    monkeypatch.setattr(cluster, "status", lambda: ROWS)
    monkeypatch.setattr(cluster, "down", down)
    return names


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [([], ["default"]), (["dev"], ["dev"]), (["--all"], ["dev", "old"]), (["--stale"], ["old"])],
)
def test_down_stops_what_it_is_told_to(stopped: list[str], arguments: list[str], names: list[str]) -> None:
    """One by name, all, or the stale ones."""
    result = run("down", *arguments)
    assert result.exit_code == 0
    assert stopped == names


def test_down_of_what_is_not_there_says_so_and_is_done(stopped: list[str]) -> None:
    """The end that was asked for is reached."""
    result = run("down", "none-such")
    assert (result.exit_code, result.stderr) == (0, "cluster none-such is not there\n")
    assert stopped == ["none-such"]


def test_down_refuses_two_answers_to_one_question(stopped: list[str]) -> None:
    """A name and --all cannot both be meant."""
    assert isinstance(run("down", "dev", "--all").exception, WrongUse)
    assert stopped == []


@pytest.mark.usefixtures("stopped")
def test_status_is_a_table_for_people_and_json_for_programs() -> None:
    """Same rows; what a stale cluster lacks is a dash or null."""
    table = run("status").stdout.splitlines()
    assert table[0].split() == ["NAME", "STATE", "NODE", "SERVER", "KUBECONFIG"]
    assert table[2].split() == ["old", "stale", "-", "-", "-"]
    rows: list[dict[str, Any]] = json.loads(run("status", "-o", "json").stdout)
    assert [(row["name"], row["state"], row["server"]) for row in rows] == [
        ("dev", "running", "https://127.0.0.1:1"),
        ("old", "stale", None),
    ]


def test_kubeconfig_prints_the_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """For use in a shell: export KUBECONFIG=$(hanei cluster kubeconfig)."""
    monkeypatch.setattr(cluster, "find", lambda name: RUNNING if name == "default" else None)
    assert run("kubeconfig").stdout == "/c/dev/kubeconfig\n"
    missing = run("kubeconfig", "other").exception
    assert isinstance(missing, ClusterError)
    assert missing.hint == "start it with: hanei cluster up other"


def test_up_tells_what_it_does_and_how_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, so that stdout stays free; without a terminal, part progress is sparse."""

    def up(name: str, *, node: str, kubeconfig: str | None, context: str | None, progress: cluster.Progress) -> Cluster:
        assert (name, node, kubeconfig, context) == ("dev", "none", None, None)
        progress.note("starting")
        for done in range(1000):
            progress.part("building", done, 1000)
        return RUNNING

    monkeypatch.setattr(cluster, "up", up)
    result = run("up", "dev", "--node", "none")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "starting",
        "cluster dev answers at https://127.0.0.1:1, node simulated",
        "use it with: export KUBECONFIG=/c/dev/kubeconfig",
    ]
    assert result.stdout == ""


def test_an_unknown_node_kind_is_wrong_use() -> None:
    """Click names the choices."""
    result = run("up", "--node", "fast")
    assert result.exit_code == 2
    assert "'simulated', 'real', 'none'" in result.stderr
