"""`hanei get`: resources and their components, as their status tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import app_option, cluster_options, connect, load_apps, output_option, runs, show, table
from hanei.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hanei.app.application import App


@click.command("get")
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Resources of every namespace.")
@app_option(many=True)
@cluster_options
@output_option("table", "json", "yaml", default="table")
def command(
    name: str | None,
    all_namespaces: bool,
    app: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    output: str,
) -> None:
    """Show resources and their components: state, hash, pods, and what they wait for."""
    apps = load_apps(app)
    connection = connect(kubeconfig, context, namespace)
    where = None if all_namespaces else namespace or connection.namespace
    items = runs(_items)(apps, connection, where, name)
    if output != "table":
        show(items[0] if name and len(items) == 1 else items, output)
        return
    if not items:
        click.echo(f"No resources in {'any namespace' if where is None else f'namespace {where}'}.", err=True)
        return
    rows = [row for item in items for row in _rows(item)]
    table(("resource", "component", "state", "pods", "hash", "waits for"), rows)


async def _items(
    apps: list[App[Any]], connection: Any, namespace: str | None, name: str | None
) -> list[dict[str, Any]]:
    import orjson

    from hanei.kube.client import Client
    from hanei.kube.errors import NotFound

    found: list[dict[str, Any]] = []
    async with Client(connection) as client:
        for app in apps:
            try:
                async for page in client.list_pages(
                    app.kind, namespace, fields=f"metadata.name={name}" if name else ""
                ):
                    found += map(orjson.loads, page.items)
            except NotFound as error:
                raise WrongUse(
                    f"the cluster does not know {app.kind.api_version} {app.kind.kind}",
                    hint="apply the CRD first: hanei crd | kubectl apply -f -",
                ) from error
    if name and not found:
        raise WrongUse(f"there is no {' or '.join(app.kind.kind for app in apps)} {name!r} in namespace {namespace}")
    return found


def _rows(item: Mapping[str, Any]) -> list[tuple[str, ...]]:
    status = item.get("status") or {}
    ready = next(
        (one for one in status.get("conditions", ()) if one["type"] == "Ready"),
        {"status": "Unknown", "reason": "the operator has not looked at it yet"},
    )
    metadata = item["metadata"]
    told = "" if ready["status"] == "True" else ready.get("message", "")
    rows: list[tuple[str, ...]] = [
        (f"{item['kind']} {metadata['namespace']}/{metadata['name']}", "", ready["reason"], "", "", told)
    ]
    for one in status.get("components", ()):
        pods = one.get("pods") or {}
        counts = f"{pods.get('ready', 0)}/{pods.get('wanted', 0)}" if pods else ""
        rows.append(
            ("", one["name"], one.get("state", ""), counts, one.get("wantedHash", "")[:8], one.get("waitsFor", ""))
        )
    return rows
