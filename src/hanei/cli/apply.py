"""`hanei apply`: write resources to the cluster, after saying what that does. CRDs and rights go through kubectl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import app_option, cluster_options, connect, load_apps, runs
from hanei.cli.plan import checked, print_actions

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.app.application import App


@click.command("apply")
@click.option(
    "-f", "--file", "file", metavar="FILE", required=True, help="A YAML file with resources; - reads standard input."
)
@click.option("--dry-run", is_flag=True, help="Ask the server, and write nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what it does.")
@app_option(many=True)
@cluster_options
def command(
    file: str,
    dry_run: bool,
    quiet: bool,
    app: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Write resources to the cluster, and say what that does.

    The spec becomes what the file says. Every resource in the file is checked before the first one is written.
    """
    apps = load_apps(app)
    connection = connect(kubeconfig, context, namespace)
    runs(_apply)(apps, connection, namespace or connection.namespace, file, dry_run, quiet)


async def _apply(apps: list[App[Any]], connection: Any, namespace: str, file: str, dry_run: bool, quiet: bool) -> None:
    from hanei.kube.client import Client
    from hanei.operator.preview import preview, write

    async with Client(connection) as client:
        ready = [(item, await preview(client, item[0], item[1], item[3])) for item in checked(file, apps, namespace)]
        for (app, place, label, document), found in ready:
            if not quiet:
                click.echo(label)
                print_actions(found)
            before = (found.live or {}).get("metadata", {}).get("resourceVersion")
            written = await write(client, app, place, document, found.live, dry_run=dry_run)
            done = (
                "created"
                if found.live is None
                else "unchanged"
                if written["metadata"]["resourceVersion"] == before
                else "changed"
            )
            click.echo(f"{label} {done}{' (dry run)' if dry_run else ''}")
