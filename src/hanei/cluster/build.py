"""The provider that builds all programs as one binary from the official Go modules.

For machines with a Go toolchain and a module proxy but no way to the release pages. The module is the package's own
``gobuild/``. The first build takes minutes, later ones find Go's own cache warm. The binary is moved to its place in one
step; the programs are links to it, which it tells apart by the name it is called by.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from hanei.cluster import versions
from hanei.cluster.binaries import UNFINISHED, Unavailable
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from hanei.cluster.progress import Progress

BINARY = "kubernetes"

_NEEDED_GO = (1, 26)
_GRACE = 3.0
"""Seconds that an interrupted `go` gets to end its compilers before it is killed."""
_TEXT = "building Kubernetes from its Go modules (minutes, once)"
_KEPT_LINES = 15
"""The end of the output that a failed build shows."""


class Build:
    """See the module."""

    name = "build"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, needed: frozenset[str], progress: Progress) -> Mapping[str, Path]:
        binary = self._folder / BINARY
        if not binary.exists():
            self._build(binary, progress)
        for program in needed:
            self._link(program)
        return {program: self._folder / program for program in needed}

    def _build(self, target: Path, progress: Progress) -> None:
        go = _go()
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=self._folder, ignore_cleanup_errors=True) as name:
            module = Path(name)
            for file in versions.go_module().iterdir():
                if file.name.endswith(".in"):
                    (module / file.name.removesuffix(".in")).write_bytes(file.read_bytes())
            (module / "tmp").mkdir()
            total = _fetch(go, module, progress)
            build = [go, "build", "-v", *build_flags(), "-o", BINARY, "."]
            with contextlib.closing(_run(build, module)) as packages:
                for done, _ in enumerate(packages, 1):
                    progress.part(_TEXT, min(done, total), total)
            progress.note("Kubernetes is built")
            (module / BINARY).replace(target)

    def _link(self, program: str) -> None:
        draft = self._folder / f"{UNFINISHED}{program}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(BINARY)
        draft.replace(self._folder / program)


def _fetch(go: str, module: Path, progress: Progress) -> int:
    """Have Go download what the module needs; returns how many packages there are to build."""
    progress.note("fetching Kubernetes' Go modules")
    downloads = packages = 0
    with contextlib.closing(_run([go, "list", "-deps", "."], module)) as lines:
        for line in lines:
            if line.startswith("go: "):
                downloads += 1
                progress.part("fetching Go modules", downloads, 0)
            else:
                packages += 1
    return packages


def build_flags() -> list[str]:
    """Flags of `go build`: a release's version in it, no debugging tables, no paths of this machine."""
    major, minor, _ = versions.KUBERNETES.removeprefix("v").split(".")
    stamps = {"gitVersion": versions.KUBERNETES, "gitMajor": major, "gitMinor": minor}
    linker = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())
    return ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {linker}"]


def _go() -> str:
    """The path of a Go that is new enough, else Unavailable saying what to install."""
    wanted = ".".join(map(str, _NEEDED_GO))
    go = shutil.which("go")
    if go is None:
        raise Unavailable(f"Go {wanted} or newer is not installed (no `go` on the PATH)")
    asked = subprocess.run(  # noqa: S603
        [go, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    version = re.match(r"go(\d+)\.(\d+)", asked.stdout.strip())
    if version is None or (int(version[1]), int(version[2])) < _NEEDED_GO:
        raise Unavailable(f"Go {wanted} or newer is needed, {go} is {asked.stdout.strip() or 'broken'}")
    return go


def _run(argv: list[str], module: Path) -> Generator[str, None, None]:
    """The lines that a `go` command prints, as they come; ClusterError when it fails.

    Its whole process group ends with us, however we are left: compilers would go on for minutes.
    """
    process = subprocess.Popen(  # noqa: S603
        argv,
        cwd=module,
        env=_environ(module),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line)
            yield line.rstrip()
        code = process.wait()
    finally:
        _end(process)
    if code != 0:
        raise ClusterError(
            f"`{' '.join(argv[:2])}` failed:\n{''.join(last)}".rstrip(),
            hint="is a Go module proxy reachable (go env GOPROXY), and is there room on the disk (2 GB)?",
        )


def _environ(module: Path) -> dict[str, str]:
    """The user's, without what would build another program; temporary files go where they are removed with the rest."""
    foreign = {"GOOS", "GOARCH", "GOFLAGS", "GOWORK"}
    own = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTMPDIR": str(module / "tmp")}
    return {name: value for name, value in os.environ.items() if name not in foreign} | own


def _end(process: subprocess.Popen[str]) -> None:
    for which in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, which)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    if process.stdout is not None:
        process.stdout.close()
