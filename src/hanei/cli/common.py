"""What the commands share: finding apps, options for the cluster, reading files, printing."""

from __future__ import annotations

import functools
import importlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hanei.errors import AppError, HaneiError, WrongUse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanei.app.application import App
    from hanei.kube.config import Connection

F = TypeVar("F", bound="Callable[..., Any]")
_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Kubeconfig file. [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]",
)
_CONTEXT = click.option("--context", help="Context of the kubeconfig.")
_NAMESPACE = click.option("-n", "--namespace", help="Namespace. [default: the context's]")


def app_option(*, many: bool = False) -> Callable[[F], F]:
    """`--app module:object`."""
    text = "The app, as module:object. [default: app of [tool.hanei] in pyproject.toml]" + (
        " May be repeated." if many else ""
    )
    return click.option("--app", "app", metavar="MODULE:OBJECT", multiple=many, help=text)


def cluster_options(function: F) -> F:
    """`--kubeconfig`, `--context` and `--namespace`."""
    return _KUBECONFIG(_CONTEXT(_NAMESPACE(function)))


def output_option(*choices: str, default: str) -> Callable[[F], F]:
    """`-o`."""
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=default, show_default=True, help="Output format."
    )


def load_apps(names: Iterable[str]) -> list[App[Any]]:
    """The apps of these names, or the project's own. Raises `WrongUse` where there is none."""
    wanted = [name for name in names if name] or _from_pyproject()
    return [_load(name) for name in wanted]


def load_app(name: str | None) -> App[Any]:
    """One app."""
    apps = load_apps([name] if name else [])
    if len(apps) > 1:
        raise WrongUse("several apps are named in pyproject.toml", hint="choose one with --app module:object")
    return apps[0]


def connect(kubeconfig: Path | None, context: str | None, namespace: str | None) -> Connection:
    """The connection that these options mean. Raises `ConfigError`."""
    from hanei.kube.config import load

    return load(kubeconfig, context, namespace)


def documents(path: str) -> list[dict[str, Any]]:
    """The objects in a YAML file (`-`: standard input). Raises `WrongUse` naming file, line and what was found."""
    import yaml

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise WrongUse(f"{path}: {reason}", hint="name a YAML file, or - for standard input") from error
    try:
        found = [item for item in yaml.safe_load_all(text) if item is not None]
    except yaml.YAMLError as error:
        raise WrongUse(_yaml_problem(path, text, error)) from error
    if not found:
        raise WrongUse(f"{path}: holds no object", hint="write a resource: apiVersion, kind, metadata and spec")
    for number, item in enumerate(found, start=1):
        if not isinstance(item, dict):
            raise WrongUse(
                f"{path}: document {number} is a {_kind_of(item)}, expected a map",
                hint="a resource has apiVersion, kind, metadata and spec",
            )
    return found


def resource_in(path: str, number: int, document: dict[str, Any], apps: Iterable[App[Any]]) -> App[Any]:
    """The app that a document is a resource of. Raises `WrongUse`."""
    listed = list(apps)
    where = f"{path}: document {number}"
    for app in listed:
        if (document.get("apiVersion"), document.get("kind")) == (app.kind.api_version, app.kind.kind):
            metadata, spec = document.get("metadata"), document.get("spec", {})
            if not (isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and metadata["name"]):
                raise WrongUse(f"{where}: metadata.name is missing")
            if not isinstance(spec, dict):
                raise WrongUse(f"{where}: spec is a {_kind_of(spec)}, expected a map")
            return app
    known = ", ".join(f"{app.kind.api_version} {app.kind.kind}" for app in listed)
    raise WrongUse(
        f"{where}: found {document.get('apiVersion')} {document.get('kind')}, expected {known}",
        hint="CRDs and rights go through kubectl apply",
    )


def show(value: Any, output: str) -> None:
    """Print data as YAML or JSON. A list of objects becomes YAML documents, or one JSON list."""
    if output == "json":
        import orjson

        click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
        return
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    many = value if isinstance(value, list) else [value]
    click.echo(yaml.dump_all(many, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120), nl=False)


def table(title: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table: with lines and colour on a terminal, plain columns elsewhere."""
    listed = list(rows)
    widths = [max(len(row[column]) for row in (title, *listed)) for column in range(len(title))]
    for row in (tuple(head.upper() for head in title), *listed):
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run an async command."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        import asyncio

        return asyncio.run(function(*args, **kwargs))

    return wrapper


def _load(name: str) -> App[Any]:
    from hanei.app.application import App

    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise WrongUse(f"--app {name!r}: expected module:object", hint="such as --app autolock.app:app")
    for folder in (Path.cwd() / "src", Path.cwd()):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise WrongUse(
                f"--app {name}: there is no module {error.name!r}",
                hint="install the app's package, or run this in its folder",
            ) from error
        raise AppError(f"--app {name}: {module} imports {error.name!r}, which is not installed") from error
    except AttributeError as error:
        raise WrongUse(f"--app {name}: {module} has no {attribute!r}") from error
    except HaneiError:
        raise
    except Exception as error:
        raise AppError(f"--app {name}: importing {module} raised {type(error).__name__}: {error}") from error
    if not isinstance(found, App):
        raise WrongUse(f"--app {name}: is a {type(found).__name__}, expected a hanei.App")
    if not found.components:
        raise AppError(f"--app {name}: has no components", hint="register one with @app.component")
    return found


def _from_pyproject() -> list[str]:
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            found = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("hanei", {}).get("app")
        except tomllib.TOMLDecodeError as error:
            raise WrongUse(f"{file}: {error}") from error
        if found is not None:
            return [found] if isinstance(found, str) else list(found)
    raise WrongUse(
        "no app is named",
        hint='give --app module:object, or write [tool.hanei] app = "module:object" in pyproject.toml',
    )


def _yaml_problem(path: str, text: str, error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"{path}: is not YAML: {error}"
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    if "\t" in line[: mark.column + 1] or line.startswith("\t"):
        return f"{path}:{mark.line + 1}: a tab indents this line; YAML wants spaces"
    return f"{path}:{mark.line + 1}: is not YAML: {error.problem or error.context}"


def _kind_of(value: Any) -> str:
    return {list: "list", str: "text", bool: "true/false", int: "number", float: "number", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )
