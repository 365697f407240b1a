"""The provider that downloads the official release binaries and checks them against their published sums.

A file is streamed beside its place, checked, and moved there in one step: what has its final name is complete and
right. No connection, an answer other than 200 or a body that ends early make the provider Unavailable, so the next one
is asked; a wrong sum ends everything, because somebody should look at it. ``HANEI_DOWNLOAD_BASE_KUBERNETES``, ``…_ETCD``,
``…_KWOK`` and ``…_KWOK_INDEX`` name mirrors.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, fields
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hanei.cluster import checksums, versions
from hanei.cluster.binaries import UNFINISHED, Unavailable
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hanei.cluster.progress import Progress

_TIMEOUT = 8.0
"""Seconds to connect, and between two pieces: a machine without internet is to build soon, not to wait."""
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Bases:
    """Where the projects publish, without a trailing slash."""

    kubernetes: str = "https://dl.k8s.io"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"
    kwok: str = "https://github.com/kubernetes-sigs/kwok/releases/download"
    kwok_index: str = "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Bases:
        names = {field.name: f"HANEI_DOWNLOAD_BASE_{field.name.upper()}" for field in fields(cls)}
        return cls(**{field: environ[name].rstrip("/") for field, name in names.items() if environ.get(name)})


@dataclass(frozen=True, slots=True)
class Source:
    """One program: the file at `url`, its sum at `sums` as `read` understands it, and its path inside an archive."""

    program: str
    url: str
    sums: str
    read: checksums.Reader
    member: str = ""

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


def source(program: str, bases: Bases, architecture: str) -> Source:
    """Where a program of `versions` is published."""
    if program == "etcd":
        release = f"{bases.etcd}/{versions.ETCD}"
        stem = f"etcd-{versions.ETCD}-linux-{architecture}"
        return Source(program, f"{release}/{stem}.tar.gz", f"{release}/SHA256SUMS", checksums.listed, f"{stem}/etcd")
    if program == "kwok":
        url = f"{bases.kwok}/{versions.KWOK}/kwok-linux-{architecture}"
        return Source(program, url, f"{bases.kwok_index}/{versions.KWOK}", checksums.indexed)
    url = f"{bases.kubernetes}/{versions.KUBERNETES}/bin/linux/{architecture}/{program}"
    return Source(program, url, f"{url}.sha256", checksums.beside)


class Download:
    """See the module."""

    name = "download"

    def __init__(self, folder: Path, bases: Bases, architecture: str) -> None:
        self._folder = folder
        self._bases = bases
        self._architecture = architecture

    @classmethod
    def official(cls, folder: Path) -> Download:
        return cls(folder, Bases.from_environ(os.environ), versions.architecture())

    def find(self, needed: frozenset[str], progress: Progress) -> Mapping[str, Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, Path] = {}
        for program in sorted(needed):
            try:
                found[program] = self._fetch(source(program, self._bases, self._architecture), progress)
            except Unavailable as reason:
                raise Unavailable(reason.message, found=found) from reason
        return found

    def _fetch(self, wanted: Source, progress: Progress) -> Path:
        expected = self._expected(wanted)
        target = self._folder / wanted.program
        with self._part() as part:
            found = _stream(wanted.url, part, f"downloading {wanted.file}", progress)
            if found != expected:
                raise ClusterError(
                    f"{wanted.url}: wrong checksum: expected {expected}, got {found}",
                    hint="the file is not what was published; nothing was kept. Try again, or look at what is between",
                )
            if wanted.member:
                self._unpack(part, wanted, target)
            else:
                _publish(part, target)
        return target

    def _expected(self, wanted: Source) -> str:
        with _opened(wanted.sums) as (answer, _):
            text = answer.read(1 << 24).decode(errors="replace")
        expected = wanted.read(text, wanted.file)
        if expected is None:
            raise Unavailable(f"{wanted.sums}: no SHA-256 sum for {wanted.file}")
        return expected

    def _unpack(self, archive: Path, wanted: Source, target: Path) -> None:
        with self._part() as part, tarfile.open(archive) as tar:
            try:
                content = tar.extractfile(wanted.member)
            except KeyError:
                content = None
            if content is None:
                raise Unavailable(f"{wanted.url}: no file {wanted.member} inside")
            with part.open("wb") as file:
                while chunk := content.read(_CHUNK):
                    file.write(chunk)
            _publish(part, target)

    @contextlib.contextmanager
    def _part(self) -> Iterator[Path]:
        """An unfinished file in the target's folder; gone at the end unless it was moved to its place."""
        descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=self._folder)
        os.close(descriptor)
        path = Path(name)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _publish(part: Path, target: Path) -> None:
    part.chmod(0o755)
    part.replace(target)


def _stream(url: str, into: Path, text: str, progress: Progress) -> str:
    """Write the body to a file and return its SHA-256 sum."""
    digest, done = hashlib.sha256(), 0
    with _opened(url) as (answer, total), into.open("wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress.part(text, done, total)
    if total and done != total:
        raise Unavailable(f"{url}: ended after {done} of {total} bytes")
    return digest.hexdigest()


@contextlib.contextmanager
def _opened(url: str) -> Iterator[tuple[IO[bytes], int]]:
    """The body of a GET and its length, 0 if unknown; whatever goes wrong on the way is Unavailable."""
    if not url.startswith(("http://", "https://")):
        raise Unavailable(f"{url}: only http and https are downloaded from")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310  the scheme is checked above
            yield answer, int(answer.headers.get("Content-Length") or 0)
    except urllib.error.HTTPError as error:
        error.close()
        raise Unavailable(f"{url}: HTTP {error.code}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise Unavailable(f"{url}: {getattr(error, 'reason', None) or error}") from error
