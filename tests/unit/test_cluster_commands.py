"""What a cluster's programs are told, and what its certificates say."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from hanei.cluster import certificates, commands, http, objects, versions
from hanei.cluster.commands import Layout, Ports

LAYOUT = Layout(Path("/state/clusters/one"), Ports(1, 2, 3))
PROGRAMS = {name: Path("/bin") / name for name in versions.ALL_PROGRAMS}
COMMANDS = {
    "etcd": commands.etcd(LAYOUT, PROGRAMS["etcd"]),
    "kube-apiserver": commands.apiserver(LAYOUT, PROGRAMS["kube-apiserver"]),
    "kube-controller-manager": commands.controller_manager(LAYOUT, PROGRAMS["kube-controller-manager"]),
    "kube-scheduler": commands.scheduler(LAYOUT, PROGRAMS["kube-scheduler"]),
    "kwok": commands.kwok(LAYOUT, PROGRAMS["kwok"]),
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "pki"
    certificates.issue(folder)
    return folder


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_program_names_the_folder_and_only_loopback(name: str) -> None:
    """The folder in the command line is what proves a process to be ours."""
    command = COMMANDS[name]
    assert command.name == name
    assert any("=/state/clusters/one/" in argument for argument in command.argv)
    assert not any("0.0.0.0" in argument for argument in command.argv)


def test_every_program_has_its_place_in_the_order_of_stopping() -> None:
    """A program that were missing there would never be stopped."""
    assert set(commands.STOP_ORDER) == versions.ALL_PROGRAMS == COMMANDS.keys()


def test_the_api_server_knows_everybody_and_lets_nobody_more_than_granted() -> None:
    """RBAC on, nobody anonymous, etcd only by certificate."""
    flags = COMMANDS["kube-apiserver"].argv
    assert {"--authorization-mode=RBAC", "--anonymous-auth=false", "--audit-log-mode=blocking"} <= set(flags)
    assert "--client-cert-auth=true" in COMMANDS["etcd"].argv


def test_the_audit_log_holds_every_write_once() -> None:
    """No second line for a request, and no rule that hides a write."""
    policy = json.loads(commands.audit_policy())
    assert policy["omitStages"] == ["RequestReceived"]
    hiding = [rule for rule in policy["rules"] if rule["level"] == "None"]
    assert all("nonResourceURLs" in rule or set(rule["verbs"]) == {"get", "list", "watch"} for rule in hiding)
    assert policy["rules"][-1] == {"level": "Metadata"}


def test_the_kubeconfig_needs_no_other_file_and_opens_a_connection(pki: Path) -> None:
    """All data inside; it is YAML, and the TLS library takes it."""
    parts = [(pki / name).read_bytes() for name in ("ca.crt", "admin.crt", "admin.key")]
    path = pki.parent / "kubeconfig"
    path.write_text(commands.kubeconfig("https://127.0.0.1:6443", *parts))
    content = yaml.safe_load(path.read_text())
    assert content["contexts"][0]["context"]["namespace"] == "default"
    assert content["current-context"] == content["contexts"][0]["name"]
    found = http.endpoint(path)
    assert found.server == "https://127.0.0.1:6443"
    assert found.tls is not None
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_keys_are_for_their_owner_only(pki: Path) -> None:
    """Anybody who reads the admin's key is the admin."""
    assert pki.stat().st_mode & 0o077 == 0
    assert [path.name for path in pki.iterdir() if path.stat().st_mode & 0o077] == []


def test_the_serving_certificate_is_good_for_every_name_of_the_server(pki: Path) -> None:
    """By address, by localhost, and as pods call it."""
    certificate = x509.load_pem_x509_certificate((pki / "apiserver.crt").read_bytes())
    names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(names, x509.SubjectAlternativeName)
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))


def test_only_the_admin_and_the_programs_that_need_it_are_masters(pki: Path) -> None:
    """The scheduler lives with the rights that Kubernetes grants it."""
    masters = set()
    for identity in certificates.IDENTITIES:
        subject = x509.load_pem_x509_certificate((pki / f"{identity.file}.crt").read_bytes()).subject
        if any(
            entry.value == certificates.MASTERS for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ):
            masters.add(identity.file)
    assert masters == {"admin", "kube-controller-manager", "kwok"}


def test_stages_are_of_the_class_that_the_cluster_offers() -> None:
    """The StorageClass and the stages that serve it name each other in two files."""
    texts = [(versions.stages() / name).read_text() for name in ("node.yaml", "pod.yaml", "volume.yaml")]
    stages = [stage for text in texts for stage in yaml.safe_load_all(text)]
    assert {stage["kind"] for stage in stages} == {"Stage"}
    assert len({stage["metadata"]["name"] for stage in stages}) == len(stages)
    assert f"== '{objects.STORAGE_CLASS}'" in texts[2]
    assert f"provisioned-by: {objects.PROVISIONER}\n" in texts[2]


def test_a_test_session_finds_room_for_its_pods() -> None:
    """Two nodes of 5,000 pods, each with addresses for them."""
    nodes = [seed.body for seed in objects.seeds() if seed.body["kind"] == "Node"]
    assert [node["status"]["allocatable"]["pods"] for node in nodes] == ["5000", "5000"]
    assert len({node["spec"]["podCIDR"] for node in nodes}) == 2
