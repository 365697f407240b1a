"""`hanei`: the command line. Commands are imported when they are used, so that `--help` is quick.

Errors of Hanei end here: a message without a traceback, and an exit code (0 done, 1 failed, 2 wrong use, 3 `plan`
found changes).
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from hanei.errors import ConfigError, HaneiError, SettingsInvalid, WrongUse

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "apply": "Write resources to the cluster, and say what that does.",
    "cluster": "A local Kubernetes control plane, for tests and demos.",
    "crd": "Print the CustomResourceDefinition of an app.",
    "explain": "What each setting does to each component.",
    "get": "Show resources and their components.",
    "plan": "What would a change do? Nothing is written.",
    "rbac": "Print the least rights that an app's operator needs.",
    "run": "Run the operator in the foreground.",
}
DONE, FAILED, WRONG_USE, CHANGES = 0, 1, 2, 3


class Lazy(click.Group):
    """A group whose commands are modules of `hanei.cli`, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """One command, imported now."""
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"hanei.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in `--help`, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hanei", message="hanei %(version)s")
def root() -> None:
    """Change a setting, and exactly the pods that use it restart.

    Settings and components are declared once in Python; hanei makes the CRD, runs the operator, and tells before
    each change what it does.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: runs a command and ends the process with its exit code."""
    try:
        result = root.main(
            args=list(arguments) if arguments is not None else None, prog_name="hanei", standalone_mode=False
        )
        code = result if isinstance(result, int) else DONE
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        code = 130
    except BrokenPipeError:
        sys.stderr.close()
        code = DONE
    except HaneiError as error:
        click.echo(f"Error: {error}", err=True)
        code = WRONG_USE if isinstance(error, WrongUse | SettingsInvalid | ConfigError) else FAILED
    except BaseExceptionGroup as group:
        code = _group(group)
    sys.exit(code)


def _group(group: BaseExceptionGroup[BaseException]) -> int:
    """An error out of a task group: ours is told as itself, anything else is a bug and shows its traceback."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if not isinstance(first, HaneiError):
        raise group
    click.echo(f"Error: {first}", err=True)
    return WRONG_USE if isinstance(first, WrongUse | ConfigError) else FAILED


if __name__ == "__main__":
    main()
