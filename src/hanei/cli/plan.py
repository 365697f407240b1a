"""`hanei plan`: what a change would do, component by component, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import (
    app_option,
    cluster_options,
    connect,
    documents,
    load_apps,
    output_option,
    resource_in,
    runs,
    show,
    table,
)
from hanei.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hanei.app.application import App
    from hanei.kube.client import Client
    from hanei.operator.preview import Preview


@click.command("plan")
@click.argument("name", required=False)
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    help="A YAML file with resources as they should become; - reads standard input.",
)
@click.option(
    "--set",
    "sets",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change one setting of NAME, such as main.config.main.timeout_seq=60; null takes it away. May be repeated.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 3 if anything would be written.")
@app_option(many=True)
@cluster_options
@output_option("table", "json", "yaml", default="table")
def command(
    name: str | None, file: str | None, sets: tuple[str, ...], exit_code: bool, app: tuple[str, ...],
    kubeconfig: Path | None, context: str | None, namespace: str | None, output: str,
) -> int:  # fmt: skip
    """What would a change do? Nothing is written.

    Either with a file (-f new.yaml), or for the resource NAME with changed settings (--set PATH=VALUE). Without either,
    it shows what the operator has still to do for NAME.
    """
    if (file is None) == (name is None):
        raise WrongUse(
            "name either a file (-f) or a resource",
            hint="hanei plan -f new.yaml, or hanei plan NAME --set main.image=nginx",
        )
    if file is not None and sets:
        raise WrongUse("--set changes a named resource; it does not go with -f")
    apps = load_apps(app)
    connection = connect(kubeconfig, context, namespace)
    previews = runs(_previews)(
        apps, connection, connection.namespace if namespace is None else namespace, name, file, sets
    )
    _print(previews, output)
    changes = any(not preview.plan.empty for _, preview in previews)
    return 3 if exit_code and changes else 0


async def _previews(
    apps: list[App[Any]], connection: Any, namespace: str, name: str | None, file: str | None, sets: Sequence[str]
) -> list[tuple[str, Preview]]:
    from hanei.kube.client import Client
    from hanei.operator.preview import preview

    async with Client(connection) as client:
        if file is not None:
            return [
                (label, await preview(client, one, where, document))
                for one, where, label, document in checked(file, apps, namespace)
            ]  # fmt: skip
        assert name is not None
        one, live = await _find(client, apps, namespace, name)
        wanted = {**live, "spec": apply_sets(one, live.get("spec", {}), sets)}
        return [(f"{one.kind.kind} {namespace}/{name}", await preview(client, one, namespace, wanted))]


def checked(file: str, apps: Sequence[App[Any]], namespace: str) -> list[tuple[App[Any], str, str, dict[str, Any]]]:
    """(app, namespace, label, document) of every resource in a file, validated. Raises `WrongUse` or `SettingsInvalid`."""
    from hanei.crd.definition import spec_schema
    from hanei.crd.normalise import normalise, unknown
    from hanei.errors import SettingsInvalid

    found = []
    for number, document in enumerate(documents(file), start=1):
        app = resource_in(file, number, document, apps)
        schema, spec = spec_schema(app), document.get("spec") or {}
        where = f"{file}: {app.kind.kind} {document['metadata']['name']}"
        for path, near in unknown(schema, spec):
            raise WrongUse(
                f"{where}: {path} is no setting",
                hint=f"did you mean {near}?" if near else "hanei explain lists all settings",
            )
        try:
            app.parse(normalise(schema, spec))
        except SettingsInvalid as error:
            raise SettingsInvalid(error.problems, where=where) from error
        place = document["metadata"].get("namespace") or namespace
        found.append((app, place, f"{app.kind.kind} {place}/{document['metadata']['name']}", document))
    return found


async def _find(client: Client, apps: Sequence[App[Any]], namespace: str, name: str) -> tuple[App[Any], dict[str, Any]]:
    from hanei.operator.preview import stored

    kind_name, _, bare = name.rpartition("/")
    for app in apps:
        if kind_name and kind_name.lower() not in (
            app.kind.plural,
            app.singular,
            app.kind.kind.lower(),
            *app.short_names,
        ):
            continue
        live = await stored(client, app, namespace, bare)
        if live is not None:
            return app, live
    known = " or ".join(app.kind.kind for app in apps)
    raise WrongUse(f"there is no {known} {bare!r} in namespace {namespace}", hint="hanei get lists them")


def apply_sets(app: App[Any], spec: Mapping[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """`spec` with each `PATH=VALUE`, the value typed by the schema. Raises `WrongUse`."""
    import difflib

    from hanei.crd.definition import spec_schema
    from hanei.plan.effects import with_value
    from hanei.plan.explore import schema_leaves

    known = dict(schema_leaves(spec_schema(app)))
    result = dict(spec)
    for text in sets:
        path, equals, value = text.partition("=")
        path = path.strip().removeprefix("spec.")
        if not equals:
            raise WrongUse(f"--set {text}: expected PATH=VALUE")
        if path not in known:
            near = difflib.get_close_matches(path, known, n=3, cutoff=0.5)
            raise WrongUse(
                f"--set {path}: is no setting",
                hint=f"did you mean {' or '.join(near)}?" if near else "hanei explain lists all settings",
            )
        result = with_value(result, path, _typed(path, known[path], value))
    return result


def _typed(path: str, leaf: Mapping[str, Any], text: str) -> Any:
    """A text from the command line as the schema's type."""
    import orjson

    kind = leaf.get("type")
    if text == "null":
        return None
    if kind == "string" or leaf.get("x-kubernetes-int-or-string"):
        return text
    if kind == "boolean":
        if text not in ("true", "false"):
            raise WrongUse(f"--set {path}: found {text!r}, expected true or false")
        return text == "true"
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        what = {"integer": "a whole number", "number": "a number"}.get(str(kind), "JSON")
        raise WrongUse(f"--set {path}: found {text!r}, expected {what}") from None


def _print(previews: list[tuple[str, Preview]], output: str) -> None:
    if output != "table":
        data = [preview.plan.as_json() for _, preview in previews]
        show(data[0] if len(data) == 1 else {"actions": [action for one in data for action in one["actions"]]}, output)
        return
    for label, preview in previews:
        click.echo(f"{label}{' (new)' if preview.live is None else ''}")
        print_actions(preview)


def print_actions(preview: Preview) -> None:
    """The plan as a table: every component, also those to which nothing happens."""
    from hanei.plan.model import EXPLAINED

    if preview.suspended:
        click.echo("spec.suspend is true: nothing happens until it is taken away.")
        return
    rows = []
    components = [component.name for component in preview.rendered.components]
    named = [*components, *(action.component for action in preview.plan.actions if action.component not in components)]
    for component in dict.fromkeys(named):
        found = [action for action in preview.plan.actions if action.component == component]
        rows += [(component, action.effect.value, action.reason, ", ".join(action.settings)) for action in found] or [
            (component, "none", "", "")
        ]
    table(("component", "effect", "reason", "settings"), rows)
    for effect in dict.fromkeys(action.effect for action in preview.plan.actions):
        click.echo(f"  {effect.value}: {EXPLAINED[effect]}")
    for blocked in preview.plan.blocked:
        click.echo(f"  {blocked.component}: {blocked.message}")
