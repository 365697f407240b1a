"""The README's tour and the snippets of the how-to pages: run as they stand, and compared with what they show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system import world as w

if TYPE_CHECKING:
    from hanei.cluster import Cluster

AUTOLOCK = w.ROOT / "apps" / "autolock"
BIN = Path(sys.executable).parent
README = (w.ROOT / "README.md").read_text(encoding="utf-8")


def steps(mark: str) -> list[tuple[str, str]]:
    """(command, what it prints) of each `$` in the marked block of the README."""
    block = re.search(rf"<!-- {mark} -->\n```\n(.*?)```", README, re.DOTALL)
    assert block is not None, mark
    return [
        (command, shown)
        for command, _, shown in (part.partition("\n") for part in f"\n{block[1]}".split("\n$ ") if part.strip())
    ]


def run(command: str, cwd: Path, *, stdin: str | None = None, **more: str) -> str:
    """What a command of the pages prints, on both channels."""
    program, *arguments = shlex.split(command)
    start = [sys.executable, "-m", "hanei.cli.main"] if program == "hanei" else [str(BIN / program)]
    done = subprocess.run(
        [*start, *arguments], capture_output=True, text=True, cwd=cwd, env={**os.environ, **more}, input=stdin, check=False
    )  # fmt: skip
    return done.stdout + done.stderr


def table(text: str) -> list[list[str]]:
    """Lines as words: widths of columns depend on the longest cell. Notes beside the answer are left out."""
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("note:")]


def snippet(page: str, language: str, word: str) -> str:
    """The one block of a page that holds a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (w.ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


def test_explain_prints_what_the_readme_shows() -> None:
    """No cluster is asked."""
    ((command, shown),) = steps("explain")
    assert table(run(command, AUTOLOCK)) == table(shown)


@pytest.mark.system
@pytest.mark.timeout(180)
def test_the_tour_of_the_readme_prints_what_it_shows(hanei_cluster: Cluster, hanei_namespace: str) -> None:
    """apply, wait, plan, patch and rollout history, in a namespace of the test's own."""
    environment = {"KUBECONFIG": str(hanei_cluster.kubeconfig)}
    run("kubectl apply -f -", AUTOLOCK, stdin=run("hanei crd", AUTOLOCK), **environment)
    start = [sys.executable, "-m", "hanei.cli.main", "run", "-n", hanei_namespace, "--http-port", "0"]
    operator = subprocess.Popen(start, cwd=AUTOLOCK, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        for mark in ("apply", "plan", "change"):
            for command, shown in steps(mark):
                wait = " --timeout=60s" if command.startswith("kubectl wait") else ""
                printed = run(f"{command} -n {hanei_namespace}{wait}", AUTOLOCK, **environment)
                assert table(printed) == table(shown.replace("default/", f"{hanei_namespace}/")), command
    finally:
        operator.terminate()
        operator.wait(10)


@pytest.mark.system
def test_the_manifest_of_the_operator_is_accepted(hanei_cluster: Cluster, hanei_namespace: str, tmp_path: Path) -> None:
    """By a dry run on the real API server, which knows every field of it."""
    manifest = snippet("how-to/install.md", "yaml", "hanei-operator").replace(
        "namespace: shop", f"namespace: {hanei_namespace}"
    )
    command = "kubectl apply --dry-run=server --validate=strict -f -"
    printed = run(command, tmp_path, stdin=manifest, KUBECONFIG=str(hanei_cluster.kubeconfig))
    assert printed == "deployment.apps/hanei-operator created (server dry run)\n"


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("page", "word"), [("tutorial.md", "def test_"), ("how-to/local-cluster.md", "def test_")])
def test_the_tests_that_the_pages_show_pass(hanei_cluster: Cluster, tmp_path: Path, page: str, word: str) -> None:
    """In a project of its own, with the plugin as the only set-up."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["hanei.testing.plugin"]\n', encoding="utf-8")
    (tmp_path / "test_shown.py").write_text(snippet(page, "python", word), encoding="utf-8")
    printed = run("pytest -q -p no:cacheprovider", tmp_path, HANEI_KUBECONFIG=str(hanei_cluster.kubeconfig))
    assert "1 passed" in printed, printed
