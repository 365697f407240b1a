"""The build provider with a script in Go's place: one build per machine, nothing half-made, clear words without Go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hanei.cluster import binaries, build, lock, places, versions
from hanei.cluster.binaries import UNFINISHED, Unavailable
from hanei.cluster.build import BINARY, Build
from hanei.cluster.progress import Silent
from hanei.errors import ClusterError

GO = """#!/bin/sh
case "$1" in
env) echo "${FAKE_GO_VERSION:-go1.26.0}" ;;
list) echo "go: downloading three v1.0.0" >&2; echo one; echo two ;;
build)
  echo build >>"$FAKE_GO_LOG"
  test -f main.go && test -f go.mod && test -f go.sum || exit 9
  echo one
  sleep "${FAKE_GO_SLEEP:-0}" & echo $! >"$FAKE_GO_LOG.child"; wait
  test -z "$FAKE_GO_FAIL" || { echo "main.go:1: broken" >&2; exit 1; }
  echo two
  while [ "$1" != -o ]; do shift; done
  echo "#!/bin/sh" >"$2"; chmod 755 "$2" ;;
esac
"""

PREPARE = "from hanei.cluster import prepare; print(sorted(prepare()))"


class Recorder(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.parts: list[tuple[int, int]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def part(self, text: str, done: int, total: int) -> None:
        self.parts.append((done, total))


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `go` that only pretends, first on the PATH; returns the log of its builds. The machine has no internet."""
    script = tmp_path / "bin" / "go"
    script.parent.mkdir()
    script.write_text(GO)
    script.chmod(0o755)
    log = tmp_path / "go.log"
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GO_LOG", str(log))
    monkeypatch.setenv("HANEI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HANEI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for base in ("KUBERNETES", "ETCD", "KWOK", "KWOK_INDEX"):
        monkeypatch.setenv(f"HANEI_DOWNLOAD_BASE_{base}", "none://nowhere")
    return log


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def builds(log: Path) -> int:
    return log.read_text().count("build") if log.exists() else 0


def test_one_binary_is_built_and_every_program_is_a_link_to_it(go: Path, tmp_path: Path) -> None:
    """Progress counts the packages; the work folder is gone; a second call builds nothing."""
    folder, progress = tmp_path / "out", Recorder()
    found = Build(folder).find(versions.ALL_PROGRAMS, progress)
    assert names(folder) == sorted([*versions.ALL_PROGRAMS, BINARY])
    assert {path.readlink() for path in found.values()} == {Path(BINARY)}
    assert progress.parts == [(1, 0), (1, 2), (2, 2)]
    Build(folder).find(versions.SERVER_PROGRAMS, progress)
    assert builds(go) == 1


def test_a_failed_build_shows_its_last_lines_and_leaves_nothing(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Go said is what helps."""
    monkeypatch.setenv("FAKE_GO_FAIL", "1")
    with pytest.raises(ClusterError, match=r"failed:\none\nmain.go:1: broken"):
        Build(tmp_path / "out").find(versions.ALL_PROGRAMS, Silent())
    assert names(tmp_path / "out") == []
    assert builds(go) == 1


@pytest.mark.parametrize("version", ["go1.25.9", "devel", ""])
def test_a_go_that_is_too_old_is_named_with_what_is_needed(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Nothing is tried with it."""
    monkeypatch.setenv("FAKE_GO_VERSION", version or " ")
    with pytest.raises(Unavailable, match=r"Go 1\.26 or newer is needed"):
        Build(tmp_path / "out").find(versions.ALL_PROGRAMS, Silent())
    assert builds(go) == 0


@pytest.mark.usefixtures("go")
def test_without_any_provider_the_error_says_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each provider's reason, then the ways out."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError) as caught:
        binaries.prepare(versions.SERVER_PROGRAMS, Silent())
    assert "no provider has etcd, kube-apiserver" in caught.value.message
    assert "download: none://nowhere" in caught.value.message
    assert "build: Go 1.26 or newer is not installed" in caught.value.message
    assert "HANEI_KUBECONFIG" in caught.value.hint


def test_several_processes_at_once_build_once(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for the one that builds, and take its result."""
    monkeypatch.setenv("FAKE_GO_SLEEP", "0.3")
    asked = [subprocess.Popen([sys.executable, "-c", PREPARE], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate()[0].strip() for process in asked]
    assert answers == [str(sorted(versions.ALL_PROGRAMS))] * 3
    assert builds(go) == 1


@pytest.mark.usefixtures("go")
def test_who_waits_for_another_build_says_so() -> None:
    """And goes on by itself when it is done."""
    progress = Recorder()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from hanei.cluster import lock\nwith lock.held('binaries'): print(flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        assert lock.busy("binaries")

        class Release(Recorder):
            def note(self, text: str) -> None:
                super().note(text)
                if "waiting" in text and holder.stdin and not holder.stdin.closed:
                    holder.stdin.close()

        progress = Release()
        binaries.prepare(versions.SERVER_PROGRAMS, progress)
    assert "waiting for it" in progress.notes[0]


def test_an_interrupted_build_ends_its_compilers_and_leaves_nothing(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: the whole process group of `go` is gone, and so is the work folder."""
    monkeypatch.setenv("FAKE_GO_SLEEP", "60")
    asked = subprocess.Popen([sys.executable, "-c", PREPARE], stderr=subprocess.PIPE)
    child = Path(f"{go}.child")
    limit = time.monotonic() + 20
    while not (child.exists() and child.read_text().strip()):
        assert time.monotonic() < limit
        time.sleep(0.02)
    compiler = int(child.read_text())
    asked.send_signal(signal.SIGINT)
    asked.communicate(timeout=20)
    assert asked.returncode != 0
    assert not _runs(compiler)
    assert names(places.binaries()) == []


@pytest.mark.usefixtures("go")
def test_what_a_killed_process_left_is_swept_before_the_next_build() -> None:
    """SIGKILL and power cuts leave no time to clean up."""
    folder = places.binaries()
    (folder / f"{UNFINISHED}dead" / "tmp").mkdir(parents=True)
    (folder / f"{UNFINISHED}etcd").write_text("half")
    binaries.prepare(versions.SERVER_PROGRAMS, Silent())
    assert names(folder) == sorted([*versions.SERVER_PROGRAMS, BINARY])


@pytest.mark.usefixtures("go")
def test_a_partial_set_is_completed_by_the_next_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What KUBEBUILDER_ASSETS has is used from there, the rest is built."""
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").write_text("#!/bin/sh\n")
    (assets / "etcd").chmod(0o755)
    (assets / "kube-apiserver").write_text("not executable")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = binaries.prepare(versions.ALL_PROGRAMS, Silent())
    assert found["etcd"] == assets / "etcd"
    assert found["kube-apiserver"] == places.binaries() / "kube-apiserver"
    assert found.keys() == versions.ALL_PROGRAMS


def test_the_binary_carries_its_version() -> None:
    """Clients look at it; a build without it calls itself v0.0.0."""
    flags = " ".join(build.build_flags())
    assert f"gitVersion={versions.KUBERNETES}" in flags
    assert "gitMinor=37" in flags


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
