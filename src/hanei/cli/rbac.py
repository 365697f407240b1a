"""`hanei rbac`: the least rights of an app's operator, and the admission policy of its settings page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hanei.cli.common import app_option, load_apps, output_option, show

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("rbac")
@app_option(many=True)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="The operator's own namespace, and the one that it watches unless --cluster-wide.",
)
@click.option(
    "--cluster-wide", is_flag=True, help="Rights for every namespace: a ClusterRole. Without it there is none."
)
@click.option("--account", default="hanei-operator", show_default=True, help="Name of the ServiceAccount.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="A Secret that settings may name, besides those of the sample. May be repeated.",
)
@click.option(
    "--aggregate",
    is_flag=True,
    help="Also let those who have Kubernetes' own roles view, edit or admin use the app's resources (ClusterRoles).",
)
@output_option("yaml", "json", default="yaml")
def command(
    app: Sequence[str],
    namespace: str,
    cluster_wide: bool,
    account: str,
    secrets: Sequence[str],
    aggregate: bool,
    output: str,
) -> None:
    """Print the least rights that an app's operator needs, for `kubectl apply -f -`.

    Also prints the ValidatingAdmissionPolicy that keeps a settings page from changing images or rights (cluster-wide
    objects: applying them needs an administrator; the operator itself does not need them).
    """
    from hanei.operator.people import aggregated
    from hanei.operator.rights import manifests

    apps = load_apps(app)
    found = manifests(apps, namespace=namespace, account=account, cluster_wide=cluster_wide, secrets=secrets)
    show([*found, *(aggregated(apps) if aggregate else ())], output)
