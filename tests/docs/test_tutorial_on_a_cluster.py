"""The tutorial, word by word, on a cluster: apply, wait, plan, patch, get."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system import world as w

if TYPE_CHECKING:
    from hanei.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
PAGE = (w.ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_the_tutorial_works_on_a_cluster(hanei_cluster: Cluster, hanei_namespace: str, tmp_path: Path) -> None:
    """Its app, its resource and its commands, in a namespace of the test's own."""
    (tmp_path / "greeter.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    resource = next(block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "hello.yaml" in block)
    (tmp_path / "hello.yaml").write_text(resource, encoding="utf-8")
    environment = {**os.environ, "KUBECONFIG": str(hanei_cluster.kubeconfig)}
    kubectl = str(Path(sys.executable).parent / "kubectl")

    def run(*command: str, stdin: str | None = None) -> str:
        words = (
            [sys.executable, "-m", "hanei.cli.main", *command[1:], "--app", "greeter:app"]
            if command[0] == "hanei"
            else [kubectl, *command[1:]]
        )
        scope = (
            []
            if command[1] == "crd" or ("-f" in command and command[0] == "kubectl" and stdin is not None)
            else ["-n", hanei_namespace]
        )
        done = subprocess.run(
            [*words, *scope], capture_output=True, text=True, cwd=tmp_path, env=environment, input=stdin, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("kubectl", "apply", "-f", "-", stdin=run("hanei", "crd"))
    operator = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hanei.cli.main",
            "run",
            "--app",
            "greeter:app",
            "-n",
            hanei_namespace,
            "--http-port",
            "0",
        ],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        run("hanei", "apply", "-f", "hello.yaml")
        run("kubectl", "wait", "--for=condition=Ready", "greeter/hello", "--timeout=60s")
        planned = run("hanei", "plan", "hello", "--set", "web.greeting=welcome")
        assert re.search(r"web\s+restart", planned)
        assert re.search(r"worker\s+none", planned)
        run("kubectl", "patch", "greeter", "hello", "--type=merge", "-p", '{"spec":{"web":{"greeting":"welcome"}}}')
        assert "Greeter" in run("hanei", "get")
    finally:
        operator.terminate()
        operator.wait(10)
