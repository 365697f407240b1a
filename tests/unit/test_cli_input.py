"""The command line without a cluster: wrong input gets a message that says what to do, and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = (
    "apiVersion: ochacafe.oracle.com/v1alpha1\nkind: Ochacafe\nmetadata:\n  name: a\nspec:\n  size: 1\n  image: nginx\n"
)


def hanei(*arguments: str, cwd: Path = ROOT, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run it as a user, with no cluster to be found."""
    environment = {**os.environ, "KUBECONFIG": "/nonexistent/kubeconfig", "COLUMNS": "100"}
    command = [sys.executable, "-m", "hanei.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=stdin, env=environment, check=False)


FILES: dict[str, tuple[str, str]] = {
    "tabs": ("a:\n\tb: 1\n", ":2: a tab indents this line"),
    "an empty file": ("", "holds no object"),
    "only comments": ("# nothing\n---\n", "holds no object"),
    "a list where a map belongs": ("- a\n- b\n", "document 1 is a list, expected a map"),
    "no YAML at all": ("a: [1\n", "is not YAML"),
    "another kind": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        "found v1 Pod, expected ochacafe.oracle.com/v1alpha1 Ochacafe",
    ),
    "no name": (GOOD.replace("  name: a\n", "  labels: {}\n"), "metadata.name is missing"),
    "a spec that is a list": (GOOD.partition("spec:")[0] + "spec: [1]\n", "spec is a list, expected a map"),
    "an unknown setting": (GOOD + "  siez: 2\n", "spec.siez is no setting"),
    "a setting out of range": (GOOD.replace("size: 1", "size: -1"), "spec.size: found -1"),
    "a setting of another type": (GOOD.replace("size: 1", "size: aaa"), "spec.size: found 'aaa'"),
    "an empty image": (GOOD.replace("nginx", '""'), "spec.image"),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_wrong_file_names_file_field_and_what_would_be_right(tmp_path: Path, command: str, case: str) -> None:
    """Exit code 2, the file in the message, no traceback. The cluster is not asked."""
    content, message = FILES[case]
    file = tmp_path / "input.yaml"
    file.write_text(content)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n"
    )
    done = hanei(command, "-f", str(file), "--app", "ochacafe.app:app", "--kubeconfig", str(kubeconfig))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "input.yaml" in done.stderr
    assert "Traceback" not in done.stderr


USES: dict[str, tuple[list[str], int, str]] = {
    "an unknown app": (["crd", "--app", "nothing:app"], 2, "there is no module 'nothing'"),
    "a missing object": (["crd", "--app", "ochacafe.app:nothing"], 2, "has no 'nothing'"),
    "an object that is no app": (["crd", "--app", "ochacafe.app:nodes"], 2, "expected a hanei.App"),
    "no module:object": (["crd", "--app", "ochacafe"], 2, "expected module:object"),
    "no app at all": (["crd"], 2, "[tool.hanei]"),
    "a missing kubeconfig": (["get", "--app", "ochacafe.app:app"], 2, "/nonexistent/kubeconfig"),
    "plan of nothing": (["plan", "--app", "ochacafe.app:app"], 2, "hanei plan -f new.yaml"),
    "plan of a file and a name": (["plan", "a", "-f", "b", "--app", "ochacafe.app:app"], 2, "either a file"),
    "an unknown command": (["nothing"], 2, "No such command"),
    "an unknown setting": (["explain", "nothing", "--app", "ochacafe.app:app"], 2, "is no setting of Ochacafe"),
    "a file that is not there": (
        ["apply", "-f", "/nonexistent.yaml", "--app", "ochacafe.app:app", "--kubeconfig", "/dev/null"],
        2,
        "",
    ),
}


@pytest.mark.parametrize("case", USES)
def test_wrong_use_is_told_with_its_exit_code(tmp_path: Path, case: str) -> None:
    """One message, no traceback."""
    arguments, code, message = USES[case]
    done = hanei(*arguments, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr


def test_the_app_is_found_in_pyproject_and_crd_prints_what_kubectl_applies() -> None:
    """In the folder of an app no option is needed."""
    done = hanei("crd", cwd=ROOT / "apps" / "ochacafe")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
    assert "*id" not in done.stdout, "no YAML anchors"
    assert "カフェ" not in done.stdout


@pytest.mark.parametrize("app", ["ochacafe", "autolock"])
def test_effects_lock_is_true(app: str) -> None:
    """A change of code that widens a restart shows in review."""
    done = hanei("explain", "--check", cwd=ROOT / "apps" / app)
    assert done.returncode == 0, done.stdout


def test_explain_shows_one_setting_in_both_languages() -> None:
    """Label, doc, bounds, default, class and effects."""
    for lang, label in (("en", "Time-out"), ("ja", "タイムアウト秒数")):
        done = hanei("explain", "main.config.main.timeout_seq", "--lang", lang, cwd=ROOT / "apps" / "autolock")
        assert done.returncode == 0
        assert label in done.stdout
        assert "<= 86400" in done.stdout
        assert "restart" in done.stdout


def test_help_loads_neither_pydantic_nor_aiohttp_and_the_package_starts_no_loop() -> None:
    """Start-up is quick because nothing is imported before it is used."""
    code = "import sys; sys.argv = ['hanei', '--help']\nfrom hanei.cli.main import main\ntry: main()\nexcept SystemExit: pass\nprint(sorted({'pydantic', 'aiohttp', 'kubernetes', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]"), done.stdout[-200:]
    done = subprocess.run(
        [sys.executable, "-c", "import sys, hanei; hanei.App; print('aiohttp' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_every_command_and_option_has_help() -> None:
    """Each says what it does."""
    import click

    from hanei.cli.main import COMMANDS, root

    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        assert command.help
        commands = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for one in commands:
            assert one.help
            for parameter in one.params:
                assert not isinstance(parameter, click.Option) or parameter.help, f"{name}: {parameter.name}"
