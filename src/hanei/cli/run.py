"""`hanei run`: the operator, in the foreground.

The way in for a reader: connection → client → manager → one `AppOperator` per app → run until a signal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import app_option, cluster_options, connect, load_apps, runs

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.app.application import App
    from hanei.kube.client import Client
    from hanei.kube.config import Connection
    from hanei.settings import OperatorSettings


@click.command("run")
@app_option(many=True)
@cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Watch every namespace instead of one.")
@click.option(
    "--http-port",
    type=click.IntRange(-1, 65535),
    default=8480,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics on loopback; 0 picks a free one, -1 serves none.",
)
@click.option("--http-host", default="127.0.0.1", show_default=True, help="Address of these.")
@click.option("--no-leader-election", is_flag=True, help="Work at once, without a Lease. For one process only.")
@click.option("--tune", multiple=True, metavar="KNOB=VALUE", help="Another time-out, interval or limit; repeatable.")
def command(
    app: tuple[str, ...], kubeconfig: Path | None, context: str | None, namespace: str | None, all_namespaces: bool,
    http_port: int, http_host: str, no_leader_election: bool, tune: tuple[str, ...],
) -> None:  # fmt: skip
    """Run the operator of one or several apps until SIGTERM or Ctrl-C.

    It watches one namespace, the context's or --namespace; with -A all of them. The log goes to standard error: lines
    for people on a terminal, JSON elsewhere (HANEI_LOG=debug, HANEI_LOG=json). What --tune may change is listed in
    docs/reference/configuration.md.
    """
    from hanei.cli.purity import check
    from hanei.observe.logs import setup
    from hanei.settings import OperatorSettings, tuned

    settings = replace(OperatorSettings(), http_host=http_host, http_port=None if http_port < 0 else http_port)
    settings = tuned(settings, tune)
    setup()
    apps = load_apps(app)
    for one in apps:
        check(one)
    connection = connect(kubeconfig, context, namespace)
    runs(_run)(apps, connection, settings, None if all_namespaces else connection.namespace, not no_leader_election)


async def _run(
    apps: list[App[Any]], connection: Connection, settings: OperatorSettings, watched: str | None, elect: bool
) -> None:
    from hanei.kube.client import Client
    from hanei.operator.operator import AppOperator
    from hanei.operator.rights import lease_name
    from hanei.runtime.leader import Leader, LeaseName
    from hanei.runtime.manager import Manager, run_until_signalled

    async with Client(connection, settings) as client:
        await _say_if_missing(client, apps)
        lease = LeaseName(connection.namespace, lease_name(apps))
        manager = Manager(client, settings, leader=Leader(client, lease, settings) if elect else None)
        for app in apps:
            AppOperator(manager, client, app, namespace=watched, home=connection.namespace, identity=lease.identity)
        await run_until_signalled(manager)


async def _say_if_missing(client: Client, apps: list[App[Any]]) -> None:
    """A CRD that is not there yet is no reason to stop: say what to do, and wait for it."""
    from hanei.errors import ApiError
    from hanei.observe.logs import get_logger
    from hanei.operator.schema import served_spec

    for app in apps:
        try:
            missing = await served_spec(client, app) is None
        except ApiError:
            continue  # the informers will say what is wrong, again and again
        if missing:
            name = f"{app.kind.plural}.{app.kind.group}"
            get_logger(__name__).warning(
                "The CRD is missing, waiting for it", crd=name, hint="hanei crd | kubectl apply -f -"
            )
