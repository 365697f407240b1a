"""TLS contexts from CA and client certificate.

Called by `hanei.kube.client`, in a thread, because OpenSSL reads certificates from files only. A private key that came
inside a kubeconfig is written to a file of mode 0600 in a private folder and removed before this returns.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hanei.errors import ConfigError

if TYPE_CHECKING:
    from hanei.kube.config import Tls

Pair = tuple[bytes, bytes]
"""A client certificate (chain) and its key, PEM."""


def context(tls: Tls, pair: Pair | None) -> ssl.SSLContext:
    """A client context; blocks. Raises ConfigError for material that cannot be used."""
    made = ssl.create_default_context(cadata=_ca(tls)) if tls.ca is not None else ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if pair is not None:
        _load(made, pair)
    return made


def _ca(tls: Tls) -> str:
    """The CA as text; wrong material is named now rather than at the first handshake."""
    data = tls.ca.read_bytes() if isinstance(tls.ca, Path) else (tls.ca or b"")
    place = str(tls.ca) if isinstance(tls.ca, Path) else "certificate-authority-data"
    text = data.decode("ascii", "replace")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise ConfigError(f"{place}: holds no PEM certificate")
    return text


def _load(made: ssl.SSLContext, pair: Pair) -> None:
    with tempfile.TemporaryDirectory(prefix="hanei-") as folder:
        paths = [Path(folder) / "tls.crt", Path(folder) / "tls.key"]
        for path, content in zip(paths, pair, strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        try:
            made.load_cert_chain(paths[0], paths[1])
        except ssl.SSLError as error:
            raise ConfigError(f"The client certificate and its key cannot be used: {error.reason}") from error
