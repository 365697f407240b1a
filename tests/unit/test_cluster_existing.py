"""An existing cluster under a name of ours: what is copied, what is refused, and that it is forgotten, never stopped."""

from __future__ import annotations

import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hanei.cli.cluster import command
from hanei.cluster import Node, State, down, find, status, up
from hanei.errors import ClusterError, WrongUse

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANEI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("HANEI_KUBECONFIG", raising=False)
    return tmp_path / "home"


class Ready(BaseHTTPRequestHandler):
    """Says that it is ready to who has the token."""

    def do_GET(self) -> None:
        good = self.headers["Authorization"] == "Bearer let-me-in" and self.path == "/readyz"
        self.send_response(200 if good else 401)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        return None


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Ready) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def kubeconfig(folder: Path, server: str, **changes: Any) -> Path:
    """Two contexts; the current one leads nowhere, `good` to the server, with a token in a file beside it."""
    (folder / "token").write_text("let-me-in\n")
    content = {
        "contexts": [
            {"name": "dead", "context": {"cluster": "dead", "user": "me"}},
            {"name": "good", "context": {"cluster": "good", "user": "me"}},
        ],
        "clusters": [
            {"name": "dead", "cluster": {"server": "http://127.0.0.1:9"}},
            {"name": "good", "cluster": {"server": server}},
        ],
        "users": [{"name": "me", "user": {"tokenFile": "token"}}],
        "current-context": "dead",
        **changes,
    }
    path = folder / "theirs"
    path.write_text(json.dumps(content))
    return path


def test_it_gets_a_name_and_a_kubeconfig_of_its_own(tmp_path: Path, server: str) -> None:
    theirs = kubeconfig(tmp_path, server)
    before = theirs.read_bytes()
    made = up("prod", kubeconfig=theirs, context="good")
    assert (made.name, made.node, made.server, made.audit_log) == ("prod", Node.EXISTING, server, None)
    assert made == find("prod")
    assert stat.S_IMODE(made.kubeconfig.stat().st_mode) == 0o600
    copy = json.loads(made.kubeconfig.read_text())
    assert (copy["current-context"], copy["users"][0]["user"]["tokenFile"]) == ("good", str(tmp_path / "token"))
    assert theirs.read_bytes() == before
    assert [(row.name, row.state) for row in status()] == [("prod", State.REGISTERED)]
    assert up("prod", kubeconfig=theirs, context="good") == made
    assert down("prod") is True
    assert (find("prod"), status()) == (None, [])
    assert theirs.read_bytes() == before


def test_a_context_alone_is_looked_up_where_kubectl_would(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = kubeconfig(tmp_path, server)
    monkeypatch.setenv("KUBECONFIG", str(theirs))
    assert up(context="good").server == server
    monkeypatch.setenv("KUBECONFIG", f"{theirs}:{theirs}")
    with pytest.raises(WrongUse, match="several files"):
        up(context="good")
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ClusterError, match=r"\.kube/config: cannot be read"):
        up(context="good")


@pytest.mark.parametrize(
    ("changes", "context", "message", "hint"),
    [
        ({}, None, "context dead: http://127.0.0.1:9 does not answer", "this file and context"),
        ({}, "goood", "has no context 'goood'", "it has dead, good"),
        ({"current-context": ""}, None, "has no current context", "one of dead, good"),
        ({"contexts": {}}, None, "it has no list of contexts", ""),
        ({"users": []}, "good", "context good: not a kubeconfig", ""),
        ({"users": [{"name": "me", "user": {"exec": {"command": "x"}}}]}, "good", "neither client certificate", "exec"),
    ],
)
def test_what_cannot_be_used_is_refused_and_leaves_nothing(
    tmp_path: Path, server: str, home: Path, changes: dict[str, Any], context: str | None, message: str, hint: str
) -> None:
    theirs = kubeconfig(tmp_path, server, **changes)
    with pytest.raises(ClusterError, match=message) as caught:
        up("prod", kubeconfig=theirs, context=context)
    assert caught.value.message.startswith(str(theirs))
    assert hint in (caught.value.hint or "")
    assert list((home / "clusters").glob("*")) == []
    assert list((home / "clusters").glob(".*")) == []


def test_a_refused_one_leaves_the_name_as_it_was(tmp_path: Path, server: str) -> None:
    theirs = kubeconfig(tmp_path, server)
    made = up("prod", kubeconfig=theirs, context="good")
    with pytest.raises(ClusterError):
        up("prod", kubeconfig=theirs, context="dead")
    assert find("prod") == made


def test_a_name_is_of_one_kind_at_a_time(tmp_path: Path, server: str) -> None:
    theirs = kubeconfig(tmp_path, server)
    up("prod", kubeconfig=theirs, context="good")
    with pytest.raises(ClusterError, match="runs with node existing, not simulated"):
        up("prod")
    with pytest.raises(WrongUse, match="has the nodes that it has"):
        up("prod", kubeconfig=theirs, node="none")


def test_the_commands_say_what_they_did(tmp_path: Path, server: str) -> None:
    theirs = kubeconfig(tmp_path, server)
    run = CliRunner()
    made = run.invoke(command, ["up", "prod", "--kubeconfig", str(theirs), "--context", "good"])
    assert made.stderr.splitlines()[0] == f"cluster prod answers at {server}, node existing"
    path = run.invoke(command, ["kubeconfig", "prod"]).stdout.strip()
    assert Path(path).is_file()
    assert run.invoke(command, ["status"]).stdout.splitlines()[1].split() == [
        "prod", "registered", "existing", server, path
    ]  # fmt: skip
    assert run.invoke(command, ["down", "prod"]).stderr == "cluster prod is forgotten and runs on\n"
