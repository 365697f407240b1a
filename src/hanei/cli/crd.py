"""`hanei crd`: the CustomResourceDefinition of an app, or what a change of it would break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import app_option, cluster_options, connect, load_apps, output_option, show, table

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.app.application import App
    from hanei.kube.client import Client


@click.command("crd")
@app_option(many=True)
@click.option("--diff", is_flag=True, help="Compare with the cluster's CRD: what would break in stored resources?")
@cluster_options
@output_option("yaml", "json", default="yaml")
def command(
    app: tuple[str, ...], diff: bool, kubeconfig: Path | None, context: str | None, namespace: str | None, output: str
) -> int:
    """Print the CustomResourceDefinition of an app, for `kubectl apply -f -`.

    With --diff nothing is printed but the differences from the cluster's; the exit code is 1 if a stored resource
    would break.
    """
    from hanei.cli.purity import check
    from hanei.crd.definition import definition

    apps = load_apps(app)
    for one in apps:
        check(one)
    if diff:
        import asyncio

        return asyncio.run(_diff(apps, connect(kubeconfig, context, namespace), output))
    found = [definition(one) for one in apps]
    show(found if len(found) > 1 else found[0], output)
    return 0


async def _diff(apps: list[App[Any]], connection: Any, output: str) -> int:
    from hanei.kube.client import Client

    rows: list[dict[str, Any]] = []
    async with Client(connection) as client:
        for app in apps:
            rows += await _changes(client, app)
            rows += await _stored(client, app)
    if output == "json":
        show(rows, output)
    elif rows:
        table(
            ("where", "change", "breaks"),
            [(row["where"], row["change"], "yes" if row["breaks"] else "no") for row in rows],
        )
    else:
        click.echo("No difference.")
    return 1 if any(row["breaks"] for row in rows) else 0


async def _changes(client: Client, app: App[Any]) -> list[dict[str, Any]]:
    """Differences between the stored CRD's schema of `spec` and the app's."""
    import orjson

    from hanei import kinds
    from hanei.crd.definition import spec_schema
    from hanei.crd.diff import compare
    from hanei.kube.errors import NotFound

    name = f"{app.kind.plural}.{app.kind.group}"
    try:
        found = orjson.loads(await client.get(kinds.CRD, None, name))
    except NotFound:
        return [{"where": name, "change": "is not in the cluster yet", "breaks": False}]
    version = next((one for one in found["spec"]["versions"] if one["name"] == app.kind.version), None)
    if version is None:
        served = ", ".join(one["name"] for one in found["spec"]["versions"])
        return [{"where": name, "change": f"version {app.kind.version} is not served ({served} is)", "breaks": True}]
    old = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {"type": "object"})
    return [
        {"where": change.path, "change": change.what, "breaks": change.breaks}
        for change in compare(old, spec_schema(app))
    ]


async def _stored(client: Client, app: App[Any]) -> list[dict[str, Any]]:
    """Stored resources that the app's settings would refuse."""
    import orjson

    from hanei.crd.definition import spec_schema
    from hanei.crd.normalise import normalise, unknown
    from hanei.errors import SettingsInvalid
    from hanei.kube.errors import NotFound

    rows: list[dict[str, Any]] = []
    schema = spec_schema(app)
    try:
        async for page in client.list_pages(app.kind, None):
            for raw in page.items:
                item = orjson.loads(raw)
                where = f"{app.kind.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
                spec = item.get("spec") or {}
                rows += [
                    {"where": f"{where}: {path}", "change": "is unknown to the app and would be lost", "breaks": True}
                    for path, _ in unknown(schema, spec)
                ]
                try:
                    app.parse(normalise(schema, spec))
                except SettingsInvalid as error:
                    rows += [
                        {"where": f"{where}: {path}", "change": what, "breaks": True} for path, what in error.problems
                    ]
    except NotFound:
        return []
    return rows
