"""The life of a cluster with scripts in the programs' place: ownership of processes, interruption, names and kinds."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hanei.cluster import State, down, find, lifecycle, lock, places, processes, start, status, up
from hanei.cluster.commands import Command
from hanei.errors import ClusterError, WrongUse

STUBBORN = "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.05; done\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANEI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HANEI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HANEI_KUBECONFIG", raising=False)
    return tmp_path / "home"


def program(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "program"
    path.write_text(text)
    path.chmod(0o755)
    return path


def assets(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Scripts under the names of a cluster's programs."""
    for name, text in texts.items():
        path = program(folder, text)
        path.rename(folder / name.replace("_", "-"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))


def launch(folder: Path, tmp_path: Path, text: str) -> int:
    """Start a script as the cluster's etcd; wait until it is past its own start."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = (str(program(tmp_path, text)), f"--data-dir={folder}/etcd")
    processes.start(folder, Command("etcd", argv, {}))
    number = processes.pid(folder, "etcd")
    assert number is not None
    return number


def gone(number: int) -> bool:
    """A zombie that init has not collected yet is gone too."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


LOOP = "#!/bin/sh\nwhile :; do sleep 0.05; done\n"


def test_a_program_is_ours_while_it_names_the_clusters_folder(tmp_path: Path) -> None:
    """And it is stopped by its pid alone."""
    folder = places.cluster("one")
    number = launch(folder, tmp_path, LOOP)
    assert processes.pid(folder, "etcd") == number
    assert processes.pid(places.cluster("on"), "etcd") is None
    processes.stop(folder, ["etcd"])
    assert processes.pid(folder, "etcd") is None
    assert not (folder / "pids" / "etcd").exists()


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After its grace."""
    folder = places.cluster("one")
    launch(folder, tmp_path, STUBBORN)
    processes.stop(folder, ["etcd"], grace=0.2)
    assert processes.pid(folder, "etcd") is None


def test_a_pid_that_was_used_again_is_never_touched() -> None:
    """A pid file of before the reboot names a stranger."""
    folder = places.cluster("one")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (folder / "pids").mkdir(parents=True)
        (folder / "pids" / "etcd").write_text(f"{stranger.pid}\n")
        assert processes.pid(folder, "etcd") is None
        assert down("one") is True
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert not folder.exists()


def test_a_program_lives_on_after_the_process_that_started_it(tmp_path: Path) -> None:
    """`hanei cluster up` ends, the cluster does not."""
    folder = places.cluster("one")
    folder.mkdir(parents=True)
    path = program(tmp_path, LOOP)
    code = (
        "from pathlib import Path; from hanei.cluster import processes; from hanei.cluster.commands import Command\n"
        f"processes.start(Path({str(folder)!r}), Command('etcd', ({str(path)!r}, '--data-dir={folder}/etcd'), {{}}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert processes.pid(folder, "etcd") is not None
    processes.stop(folder, ["etcd"])


def test_a_program_that_ends_while_starting_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote to its log is in the error, and nothing is left."""
    assets(tmp_path / "assets", monkeypatch, etcd="#!/bin/sh\necho no space left\n", kube_apiserver=LOOP)
    with pytest.raises(ClusterError, match=r"etcd ended while starting:\nno space left"):
        up("one", node="none")
    assert not places.cluster("one").exists()
    assert status() == []


def test_other_ports_are_tried_when_one_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thrice, then it is another fault."""
    tries = tmp_path / "tries"
    text = f"#!/bin/sh\necho $3 >>{tries}\necho listen: address already in use\n"
    assets(tmp_path / "assets", monkeypatch, etcd=text, kube_apiserver=LOOP)
    with pytest.raises(ClusterError, match="address already in use"):
        up("one", node="none")
    assert len(set(tries.read_text().split())) == 3


def test_an_interrupted_up_stops_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the API server is not ready yet."""
    assets(tmp_path / "assets", monkeypatch, etcd=LOOP, kube_apiserver=LOOP)
    asked = subprocess.Popen(
        [sys.executable, "-c", "from hanei.cluster import up; up('one', node='none')"], stderr=subprocess.PIPE
    )
    pids = places.cluster("one") / "pids"
    limit = time.monotonic() + 20
    while not ((pids / "kube-apiserver").exists() and (pids / "kube-apiserver").read_text()):
        assert time.monotonic() < limit
        time.sleep(0.02)
    numbers = [int((pids / name).read_text()) for name in ("etcd", "kube-apiserver")]
    assert [row.state for row in status()] == [State.STARTING]
    asked.send_signal(signal.SIGINT)
    asked.communicate(timeout=30)
    assert asked.returncode != 0
    assert all(map(gone, numbers))
    assert not places.cluster("one").exists()


def test_a_folder_without_its_programs_is_stale() -> None:
    """A start that was killed, or a reboot; `down` removes it."""
    places.cluster("old").mkdir(parents=True)
    assert [(row.name, row.state, row.cluster) for row in status()] == [("old", State.STALE, None)]
    assert find("old") is None
    assert down("old") is True
    assert status() == []


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-a", "a-", "a" * 41, "a b"])
def test_a_name_that_is_no_plain_folder_is_wrong_use(name: str) -> None:
    """Nothing is ever made or removed outside the state folder."""
    for call in (up, down, find):
        with pytest.raises(WrongUse, match="cannot be used"):
            call(name)


def test_a_real_node_is_refused_with_what_to_use_instead() -> None:
    """Its place is kept."""
    with pytest.raises(ClusterError, match="issue C") as caught:
        up(node="real")
    assert "kind or k3s" in caught.value.hint
    with pytest.raises(WrongUse, match="'fast' is not known"):
        up(node="fast")


def test_ports_of_other_clusters_are_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while nobody listens on them yet."""
    monkeypatch.setattr(start, "_PORT_RANGE", range(20000, 20004))
    monkeypatch.setattr(start, "_is_free", lambda port: True)
    assert set(start.free_ports({20001}).all()) == {20000, 20002, 20003}
    with pytest.raises(ClusterError, match="no free port"):
        start.free_ports({20001, 20002})


def test_a_discarded_lock_still_excludes_who_waited_for_it() -> None:
    """`down` removes the lock's file while others may have it open."""
    with lock.held("one"):
        lock.discard("one")
        assert not lock.busy("one")
        with lock.held("one"):
            assert lock.busy("one")
    assert not lock.busy("one")


def test_folders_follow_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HANEI_HOME and HANEI_CACHE win; a relative XDG path is ignored, as its rules say."""
    assert places.state() == tmp_path / "home"
    monkeypatch.delenv("HANEI_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert places.state() == tmp_path / "xdg" / "hanei"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places.state() == tmp_path / ".local/state/hanei"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("{}", "is not a kubeconfig: it has no list of contexts"),
        ("a: 1\n\tx: [", "is not YAML: line 2: found character"),
        ("a: \x00", "is not YAML: it holds bytes"),
    ],
)
def test_an_unusable_kubeconfig_of_an_existing_cluster_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    """File and fault, never a traceback."""
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterError, match=message) as caught:
        lifecycle.up(kubeconfig=path)
    assert str(path) in caught.value.message
