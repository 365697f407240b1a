"""The reference leaves nothing out: asked of the code itself, not of the generator that writes some of the pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hanei
from hanei.cli import main as cli
from hanei.plan.model import Effect
from hanei.settings import documented

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
REASON_AT = {"Blocked": 2, "Progress": 2, "_with": 2, "say": 2}
"""Where the reason of a status or an Event stands among the arguments of the calls that make one."""
STATE_AT = {"Blocked": 1, "Progress": 1, "_with": 1}


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def calls(folder: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call in the modules of a folder, by the last word of what is called."""
    for file in sorted((ROOT / "src" / "hanei" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def assigned(file: str, variable: str) -> set[str]:
    """The words that a variable of a module may be."""
    tree = ast.parse((ROOT / "src" / "hanei" / file).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return {text for node in found if ast.unparse(node.targets[0]) == variable for text in words(node.value)}


def words(node: ast.AST | None) -> set[str]:
    """The capitalised words that an argument may be."""
    found = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)} if node is not None else set()
    return {text for text in found if isinstance(text, str) and re.fullmatch(r"[A-Z][A-Za-z]+", text)}


def argument(call: ast.Call, index: int) -> ast.AST | None:
    return call.args[index] if len(call.args) > index else None


def test_every_command_and_option_is_in_the_reference() -> None:
    """With each of its spellings, in the section of its command."""
    sections = dict(re.findall(r"## `(hanei[^`]*)`\n\n```\n(.*?)```", page("cli.md"), re.DOTALL))
    found = dict(commands(cli.root, "hanei"))
    assert sections.keys() == {"hanei", *found}
    for name, command in found.items():
        for option in command.params:
            for spelling in (*option.opts, *option.secondary_opts) if isinstance(option, click.Option) else ():
                assert re.search(rf"(?<![\w-]){re.escape(spelling)}\b", sections[name]), f"{name} {spelling}"
        assert "-h, --help" in sections[name]


def test_every_reason_and_state_that_the_code_can_write_is_explained() -> None:
    """Read from the calls that make them."""
    text, reasons, states = page("status.md"), assigned("plan/readiness.py", "reason"), set[str]()
    for folder in ("operator", "plan"):
        for name, call in calls(folder):
            reasons |= words(argument(call, REASON_AT[name])) if name in REASON_AT else set()
            states |= words(argument(call, STATE_AT[name])) if name in STATE_AT else set()
            first = argument(call, 0)
            if name == "_three" and isinstance(first, ast.Tuple):
                reasons |= words(first.elts[1])
    assert {"NameTaken", "Reverted", "Contested", "SettingsInvalid", "Starting"} <= reasons
    assert states == {"Ready", "Progressing", "Waiting", "Suspended", "Stalled", "Absent"}
    missing = sorted(word for word in reasons | states if f"`{word}`" not in text)
    assert missing == []


def test_every_environment_variable_that_the_source_names_is_explained() -> None:
    """Its own, those of Kubernetes, and those of the XDG rules."""
    text, found = page("environment.md"), set[str]()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^(?:HANEI|XDG|KUBE[A-Z]*)_[A-Z_]*[A-Z]$|^KUBECONFIG$", node.value))
    assert {"HANEI_HOME", "XDG_CACHE_HOME", "KUBEBUILDER_ASSETS", "KUBERNETES_SERVICE_HOST"} <= found
    missing = sorted(name for name in found - {"HANEI_DOWNLOAD_BASE"} if f"`{name}`" not in text)
    assert missing == []


def test_every_exit_code_effect_knob_and_public_name_is_explained() -> None:
    """One line each is enough."""
    codes = page("environment.md").partition("Exit codes:")[2]
    for code in (cli.DONE, cli.FAILED, cli.WRONG_USE, cli.CHANGES, 130):
        assert re.search(rf"(?<!\d){code} [\w`]", codes), code
    for effect in Effect:
        assert f"| `{effect.value}` | " in page("effects.md")
    for name, default, _ in documented():
        assert f"| `{name}` | `{default}` | " in page("configuration.md")
    for name in hanei.__all__:
        assert f"### `{name}`\n" in page("author-api.md")
