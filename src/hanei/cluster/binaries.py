"""Finding the programs of a cluster: providers are asked in turn until the set is complete.

`prepare` is the way in. What is already on the machine is looked for without a lock; whoever must download or build
does so under one lock for the whole machine, after looking again. Each provider completes what the ones before it left
missing, so a partial set is never thrown away.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hanei.cluster import lock, places
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hanei.cluster.progress import Progress


UNFINISHED = ".unfinished-"
"""What providers call a file or folder in the cache until it is complete and checked."""


class Unavailable(ClusterError):
    """This provider cannot help here and now; the next one may. `found` is what it got before it failed."""

    def __init__(self, message: str, *, found: Mapping[str, Path] | None = None) -> None:
        super().__init__(message)
        self.found = dict(found or {})


class Provider(Protocol):
    """Raises Unavailable to pass on to the next one, and any other ClusterError to end the search."""

    name: str

    def find(self, needed: frozenset[str], progress: Progress) -> Mapping[str, Path]:
        """Those of `needed` that it has or can get, as name → executable file."""


class Folder:
    """Programs that lie in a folder under their own names."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder

    def find(self, needed: frozenset[str], progress: Progress) -> Mapping[str, Path]:
        paths = {name: self._folder / name for name in needed}
        return {name: path for name, path in paths.items() if path.is_file() and os.access(path, os.X_OK)}


def on_this_machine() -> list[Provider]:
    """``KUBEBUILDER_ASSETS`` first: who sets it wants those. Then the cache."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders: list[Provider] = [Folder("KUBEBUILDER_ASSETS", Path(assets))] if assets else []
    return [*folders, Folder("cache", places.binaries())]


def fetching() -> list[Provider]:
    """Those that take a while, in order."""
    from hanei.cluster import build, download

    return [download.Download.official(places.binaries()), build.Build(places.binaries())]


def prepare(needed: frozenset[str], progress: Progress) -> dict[str, Path]:
    """All of `needed`, found or fetched; ClusterError says what each provider lacked and what to do."""
    found, _ = resolve(needed, on_this_machine(), progress)
    if needed <= found.keys():
        return found
    with lock.held("binaries", progress, waiting="another process is getting the Kubernetes binaries; waiting for it"):
        _sweep(places.binaries())
        try:
            found, reasons = resolve(needed, [*on_this_machine(), *fetching()], progress)
        except OSError as error:
            raise ClusterError(f"{error.filename or places.binaries()}: {error.strerror or error}") from error
    if missing := sorted(needed - found.keys()):
        raise ClusterError(
            f"no provider has {', '.join(missing)}:\n" + "\n".join(f"  {reason}" for reason in reasons),
            hint="connect to the internet, or install Go, or set KUBEBUILDER_ASSETS to a folder with the binaries, "
            "or use an existing cluster: set HANEI_KUBECONFIG",
        )
    return found


def _sweep(folder: Path) -> None:
    """Remove what a killed process left unfinished. With the lock held, nobody is still at it."""
    for part in folder.glob(f"{UNFINISHED}*"):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink()


def resolve(
    needed: Iterable[str], providers: Sequence[Provider], progress: Progress
) -> tuple[dict[str, Path], list[str]]:
    """What the providers have together, and why each that could not help could not."""
    wanted, found, reasons = frozenset(needed), dict[str, Path](), list[str]()
    for provider in providers:
        missing = wanted - found.keys()
        if not missing:
            break
        try:
            found |= provider.find(missing, progress)
        except Unavailable as reason:
            found |= reason.found
            reasons.append(f"{provider.name}: {reason.message}")
            progress.note(reasons[-1])
    return found, reasons
