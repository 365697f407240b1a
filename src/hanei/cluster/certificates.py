"""A certificate authority and the certificates of one cluster, made anew for it and living as long as its folder.

`issue` writes everything below ``pki/``. Keys are readable by their owner only. Identities are Kubernetes' own: the
common name is the user, the organisation its group.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

_LIFETIME = datetime.timedelta(days=3650)
_HOSTS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# 10.96.0.1 is the address of the Service `kubernetes` in the range of `commands`.
_ADDRESSES = ("127.0.0.1", "10.96.0.1")


@dataclass(frozen=True, slots=True)
class Identity:
    """One certificate: `file` is its name in ``pki/`` without ending; a `server` proves an address, others a user."""

    file: str
    user: str
    group: str = ""
    server: bool = False


MASTERS = "system:masters"
"""The group that may do everything."""

IDENTITIES = (
    Identity("apiserver", "kube-apiserver", server=True),
    Identity("etcd", "etcd", server=True),
    Identity("admin", "hanei-admin", MASTERS),
    # With one account for all its controllers, the manager needs the rights of all of them.
    Identity("kube-controller-manager", "system:kube-controller-manager", MASTERS),
    Identity("kube-scheduler", "system:kube-scheduler"),
    Identity("kwok", "system:kwok", MASTERS),
)


def issue(folder: Path) -> None:
    """Write ``ca.crt``, a ``.crt`` and ``.key`` for each identity, and ``service-account.key`` and ``.pub``."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, now)
    _write(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    for identity in IDENTITIES:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(identity, key, authority, authority_key, now)
        _write(folder / f"{identity.file}.crt", certificate.public_bytes(serialization.Encoding.PEM))
        _write(folder / f"{identity.file}.key", _private(key))
    tokens = ec.generate_private_key(ec.SECP256R1())
    _write(folder / "service-account.key", _private(tokens))
    _write(folder / "service-account.pub", _public(tokens))


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> x509.Certificate:
    name = _name("hanei-cluster-ca")
    return (
        _builder(name, name, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    identity: Identity,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> x509.Certificate:
    # etcd calls itself as a client with its serving certificate, so a server may be both.
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if identity.server else [])
    builder = (
        _builder(_name(identity.user, identity.group), authority.subject, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
    )
    if identity.server:
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in _HOSTS]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A clock that is set back a little must not make them invalid.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(user: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _write(path: Path, content: bytes) -> None:
    """Made with the final rights before it has content: a key is never readable by others, not for a moment."""
    path.touch(mode=0o600)
    path.write_bytes(content)
