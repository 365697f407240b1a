"""The download provider against a local HTTP server: what is right is kept, what is not leaves nothing."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import tarfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from hanei.cluster import checksums, versions
from hanei.cluster.binaries import Unavailable
from hanei.cluster.download import Bases, Download, source
from hanei.cluster.progress import Silent
from hanei.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APISERVER = f"/kubernetes/{versions.KUBERNETES}/bin/linux/amd64/kube-apiserver"
ETCD = f"/etcd/{versions.ETCD}/etcd-{versions.ETCD}-linux-amd64.tar.gz"
KWOK = f"/kwok/{versions.KWOK}/kwok-linux-amd64"


@dataclass
class Site:
    """A release site: bodies by path; of a `cut` path only the first half is sent."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)

    def bases(self) -> Bases:
        return Bases(*(f"{self.address}/{name}" for name in ("kubernetes", "etcd", "kwok", "index")))

    def provider(self, folder: Path) -> Download:
        return Download(folder, self.bases(), "amd64")


@pytest.fixture
def site() -> Iterator[Site]:
    """All five programs, published as the projects do."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = found.files.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write((body or b"")[: len(body or b"") // 2] if self.path in found.cut else body or b"")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Site(f"http://127.0.0.1:{server.server_address[1]}")
    publish(found)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def publish(site: Site) -> None:
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        path = f"/kubernetes/{versions.KUBERNETES}/bin/linux/amd64/{program}"
        site.files[path] = program.encode() * 1000
        site.files[f"{path}.sha256"] = digest(site.files[path]).encode()
    site.files[ETCD] = archive(f"etcd-{versions.ETCD}-linux-amd64/etcd", b"etcd" * 1000)
    listed = f"{'0' * 64}  other.tar.gz\n{digest(site.files[ETCD])}  {ETCD.rpartition('/')[2]}\n"
    site.files[f"/etcd/{versions.ETCD}/SHA256SUMS"] = listed.encode()
    site.files[KWOK] = b"kwok" * 1000
    assets = [{"name": "kwok-linux-amd64", "digest": f"sha256:{digest(site.files[KWOK])}"}]
    site.files[f"/index/{versions.KWOK}"] = json.dumps({"assets": assets}).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive(member: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_all_programs_are_downloaded_checked_and_executable(site: Site, tmp_path: Path) -> None:
    """Also out of etcd's archive; nothing else is left in the folder."""
    found = site.provider(tmp_path).find(versions.ALL_PROGRAMS, Silent())
    assert names(tmp_path) == sorted(versions.ALL_PROGRAMS) == sorted(found)
    assert found["etcd"].read_bytes() == b"etcd" * 1000
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in found.values())


@pytest.mark.parametrize(("path", "program"), [(APISERVER, "kube-apiserver"), (ETCD, "etcd"), (KWOK, "kwok")])
def test_a_wrong_checksum_ends_the_search_and_leaves_nothing(
    site: Site, tmp_path: Path, path: str, program: str
) -> None:
    """It is no reason to try the next provider: somebody must look. File, expected and found sum are named."""
    right = digest(site.files[path])
    site.files[path] += b"!"
    with pytest.raises(ClusterError) as caught:
        site.provider(tmp_path).find(frozenset({program}), Silent())
    assert not isinstance(caught.value, Unavailable)
    for part in (site.address + path, right, digest(site.files[path])):
        assert part in caught.value.message
    assert names(tmp_path) == []


@pytest.mark.parametrize("missing", [APISERVER, f"{APISERVER}.sha256"])
def test_an_answer_other_than_200_passes_on_to_the_next_provider(site: Site, tmp_path: Path, missing: str) -> None:
    """What was already downloaded is not lost."""
    del site.files[missing]
    with pytest.raises(Unavailable, match="HTTP 404") as caught:
        site.provider(tmp_path).find(frozenset({"etcd", "kube-apiserver"}), Silent())
    assert caught.value.found == {"etcd": tmp_path / "etcd"}
    assert names(tmp_path) == ["etcd"]


def test_a_body_that_ends_early_is_not_a_wrong_checksum(site: Site, tmp_path: Path) -> None:
    """A cut connection happens; the next provider is asked, and half a file is not kept."""
    site.cut.add(APISERVER)
    with pytest.raises(Unavailable, match=r"ended after 7000 of 14000 bytes"):
        site.provider(tmp_path).find(frozenset({"kube-apiserver"}), Silent())
    assert names(tmp_path) == []


def test_a_file_without_a_published_sum_is_not_taken(site: Site, tmp_path: Path) -> None:
    """Unchecked is as good as wrong, but another provider may have it."""
    site.files[f"/index/{versions.KWOK}"] = json.dumps({"assets": [{"name": "kwok-linux-amd64"}]}).encode()
    with pytest.raises(Unavailable, match="no SHA-256 sum for kwok-linux-amd64"):
        site.provider(tmp_path).find(frozenset({"kwok"}), Silent())
    assert names(tmp_path) == []


def test_without_a_connection_the_next_provider_is_asked(tmp_path: Path) -> None:
    """Nobody listens on a port that was just given back."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    provider = Download(tmp_path, Bases(address, address, address, address), "amd64")
    with pytest.raises(Unavailable, match="refused"):
        provider.find(versions.ALL_PROGRAMS, Silent())


def test_mirrors_come_from_the_environment() -> None:
    """One variable for each project; the others keep the official address."""
    bases = Bases.from_environ({"HANEI_DOWNLOAD_BASE_KUBERNETES": "http://mirror.example/k8s/"})
    found = source("kube-scheduler", bases, "arm64")
    assert found.url == f"http://mirror.example/k8s/{versions.KUBERNETES}/bin/linux/arm64/kube-scheduler"
    assert bases.etcd == Bases().etcd


@pytest.mark.parametrize(
    ("read", "text", "found"),
    [
        (checksums.beside, "A" * 64 + "\n", "a" * 64),
        (checksums.beside, "a" * 64 + "  file", "a" * 64),
        (checksums.beside, "", None),
        (checksums.beside, "<html>", None),
        (checksums.listed, f"{'b' * 64} *file", "b" * 64),
        (checksums.listed, f"{'b' * 64}  file.asc", None),
        (checksums.indexed, '{"assets": [{"name": "file", "digest": "sha256:' + "c" * 64 + '"}]}', "c" * 64),
        (checksums.indexed, '{"assets": [{"name": "file", "digest": "md5:cc"}]}', None),
        (checksums.indexed, '{"message": "rate limit"}', None),
        (checksums.indexed, "no JSON", None),
    ],
)
def test_published_sums_are_read_or_refused(read: checksums.Reader, text: str, found: str | None) -> None:
    """What is not plainly a sum for this file is none."""
    assert read(text, "file") == found
