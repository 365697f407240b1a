"""Kubeconfig files as kubectl reads them, and the pod's own account."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hanei.errors import ConfigError
from hanei.kube.config import Connection, in_cluster, load

if TYPE_CHECKING:
    from pathlib import Path


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any) -> dict[str, Any]:
    """A kubeconfig with one context `main`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), "utf-8")
    return file


def loaded(folder: Path, content: Any, **how: Any) -> Connection:
    return load(written(folder, content), **how)


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_context_gives_server_namespace_and_login(tmp_path: Path) -> None:
    """The plain case."""
    found = loaded(tmp_path, config(user={"token": "t"}, namespace="shop"))
    assert (found.server, found.namespace, found.credentials.token) == ("https://one:6443", "shop", "t")
    assert found.source == f"file {tmp_path / 'config'}, context main"


def test_what_the_caller_says_wins(tmp_path: Path) -> None:
    """--context and --namespace."""
    content = config(namespace="shop")
    content["contexts"].append({"name": "other", "context": {"cluster": "c"}})
    found = loaded(tmp_path, content, context="other", namespace="test")
    assert (found.namespace, found.source.endswith("context other")) == ("test", True)
    assert loaded(tmp_path, content, context="other").namespace == "default"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl does with $KUBECONFIG; a file that does not exist is passed over."""
    first = written(tmp_path, {"users": [{"name": "u", "user": {"token": "first"}}]}, "first")
    second = written(tmp_path, config(user={"token": "second"}), "second")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}:{second}")
    found = load()
    assert (found.server, found.credentials.token) == ("https://one:6443", "first")
    assert found.source == f"file {second}, context main"


def test_without_anything_the_home_folder_is_read(tmp_path: Path) -> None:
    """~/.kube/config."""
    folder = tmp_path / "home" / ".kube"
    folder.mkdir(parents=True)
    written(folder, config())
    assert load().server == "https://one:6443"


def test_paths_start_at_the_file_that_holds_them(tmp_path: Path) -> None:
    """Relative paths of CA, certificate, token and plugin."""
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).write_text("pem", "utf-8")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./bin/login", "interactiveMode": "Never"}
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token", "exec": plugin}
    found = loaded(tmp_path, config({"certificate-authority": "ca.crt"}, user))
    assert found.tls.ca == tmp_path / "ca.crt"
    assert (found.credentials.certificate, found.credentials.key) == (tmp_path / "me.crt", tmp_path / "me.key")
    assert found.credentials.token_file == tmp_path / "token"
    assert found.credentials.plugin is not None
    assert found.credentials.plugin.command == str(tmp_path / "bin/login")


def test_data_inside_the_file_wins_over_a_path(tmp_path: Path) -> None:
    """certificate-authority-data."""
    data = base64.b64encode(b"pem").decode()
    found = loaded(tmp_path, config({"certificate-authority": "nowhere", "certificate-authority-data": data}))
    assert found.tls.ca == b"pem"


def test_a_plugin_is_read_whole(tmp_path: Path) -> None:
    """Arguments, variables, hint, and what it wants to know about the cluster."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "login",
        "args": ["--now"],
        "env": [{"name": "A", "value": "b"}],
        "installHint": "Get it.",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"tls-server-name": "api", "extensions": [extension], "certificate-authority-data": "cGVt"}
    found = loaded(tmp_path, config(cluster, {"exec": plugin})).credentials.plugin
    assert found is not None
    assert (found.command, found.args, found.env) == ("login", ("--now",), (("A", "b"),))
    assert (found.install_hint, found.interactive) == ("Get it.", False)
    assert found.cluster == {
        "server": "https://one:6443",
        "certificate-authority-data": "cGVt",
        "tls-server-name": "api",
        "config": {"audience": "x"},
    }


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    """as, as-uid, as-groups."""
    user = {"as": "bob", "as-uid": "7", "as-groups": ["a", "b"]}
    assert loaded(tmp_path, config(user=user)).credentials.impersonate == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


EXEC = {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a:\n\t- b", "not readable as YAML"),
        ("[1, 2]", "a kubeconfig is a map"),
        ("", "current-context is not set"),
        ({"current-context": "gone"}, "current-context names 'gone'"),
        (config(cluster={"server": ""}), r"clusters\[c\].cluster.server: missing"),
        (config(cluster={"server": "one:6443"}), "is no URL"),
        (config(cluster={"server": 5}), "a text is needed, found int"),
        (config(cluster={"proxy-url": "http://p"}), "proxies are not supported"),
        (config(cluster={"certificate-authority": "gone.crt"}), "does not exist"),
        (config(cluster={"certificate-authority-data": "%%"}), "not valid base64"),
        (config(cluster={"insecure-skip-tls-verify": "yes"}), "true or false is needed"),
        (
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": "cGVt"}),
            "both cannot be meant",
        ),
        (config(user={"client-certificate-data": "cGVt"}), "client-key: missing"),
        (config(user={"auth-provider": {"name": "gcp"}}), "removed these in 1.26"),
        (config(user={"exec": EXEC}), "v1alpha1"),
        (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), r"exec.command: missing"),
        (config(user={"exec": {**EXEC, "args": "x"}}), "is not supported"),
        ({**config(), "users": []}, "names 'u', which is not in users"),
        ({**config(), "users": "u"}, "a list of maps is needed"),
        ({**config(), "clusters": [{"cluster": {}}]}, r"clusters\[0\].name: missing"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_field(tmp_path: Path, content: Any, complaint: str) -> None:
    """Never a traceback for a user's mistake."""
    with pytest.raises(ConfigError, match=complaint) as caught:
        loaded(tmp_path, content)
    assert str(tmp_path / "config") in str(caught.value)


def test_a_context_that_does_not_exist_lists_those_that_do(tmp_path: Path) -> None:
    """The hint saves a second command."""
    with pytest.raises(ConfigError, match=r"(?s)--context names 'prod'.*There are: main"):
        loaded(tmp_path, config(), context="prod")


def test_nothing_configured_says_what_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no pod; and files that do not exist."""
    with pytest.raises(ConfigError, match="hanei cluster up"):
        load()
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "gone")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="KUBECONFIG"):
        load()


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_finds_its_own_account(tmp_path: Path, host: str, server: str) -> None:
    """Address from the environment, token as a file that rotates, namespace as mounted."""
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x", "utf-8")
    (tmp_path / "namespace").write_text("shop\n", "utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environ, root=tmp_path)
    assert (found.server, found.namespace) == (server, "shop")
    assert (found.credentials.token_file, found.tls.ca) == (tmp_path / "token", tmp_path / "ca.crt")


def test_a_pod_without_an_account_says_so(tmp_path: Path) -> None:
    """automountServiceAccountToken: false."""
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h"}, root=tmp_path)
    with pytest.raises(ConfigError, match="not a pod"):
        in_cluster({})


def test_no_secret_shows_when_a_connection_is_printed(tmp_path: Path) -> None:
    """Connections end up in logs."""
    user = {"token": "hunter2", "username": "u", "password": "hunter2", "client-key-data": "aHVudGVyMg=="}
    found = loaded(tmp_path, config(user={**user, "client-certificate-data": "cGVt"}))
    assert "hunter2" not in repr(found)
