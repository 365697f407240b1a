"""What would a change of a resource do? The operator's own plan, made from live facts and written nowhere.

Called by `hanei plan` and `hanei apply`. The server is asked first, by a dry run, what it would make of the change:
its validation and its defaults are the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from hanei import kinds
from hanei.crd.definition import spec_schema
from hanei.crd.normalise import normalise
from hanei.errors import HaneiError, WrongUse
from hanei.kube.errors import Conflict, Invalid, NotFound
from hanei.operator.gather import gather, with_named
from hanei.operator.live import snapshot
from hanei.operator.records import with_scale
from hanei.plan.decide import Question, decide
from hanei.plan.explore import kinds_of
from hanei.plan.model import Plan
from hanei.render.model import Rendered, SecretsView
from hanei.render.render import own_of, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanei.app.application import App
    from hanei.kube.client import Client

MANAGER = "hanei-cli"


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan, and what it was made from. `live` is the resource as stored, None where it does not exist yet."""

    plan: Plan
    rendered: Rendered
    live: Mapping[str, Any] | None
    proposed: Mapping[str, Any]
    suspended: bool = False


async def stored(client: Client, app: App[Any], namespace: str, name: str) -> dict[str, Any] | None:
    """The resource as it is stored; None where there is none. Raises `WrongUse` where the CRD is missing."""
    try:
        found: dict[str, Any] = orjson.loads(await client.get(app.kind, namespace, name))
    except NotFound as error:
        if not error.reason or "could not find the requested resource" in error.message:
            raise WrongUse(
                f"the cluster does not know {app.kind.api_version} {app.kind.kind}",
                hint="apply the CRD first: hanei crd | kubectl apply -f -",
            ) from error
        return None
    return found


async def write(
    client: Client,
    app: App[Any],
    namespace: str,
    wanted: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    """Make the resource what `wanted` says: its spec is replaced, its labels and annotations are added to.

    The write carries the resourceVersion of `live`, so nobody's change is lost. Raises `WrongUse` where the server
    refuses it, naming the field, and `HaneiError` where somebody else wrote in between.
    """
    metadata = dict(wanted["metadata"])
    params = {"fieldManager": MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    name = metadata["name"]
    if live is None:
        method, path = "POST", app.kind.path(namespace)
        body = {**wanted, "metadata": {**metadata, "namespace": namespace}}
    else:
        method, path = "PUT", app.kind.path(namespace, name)
        kept = dict(live["metadata"])
        for part in ("labels", "annotations"):
            kept[part] = {**kept.get(part, {}), **(metadata.get(part) or {})}
        kept.pop("managedFields", None)
        body = {**live, "metadata": kept, "spec": wanted.get("spec", {})}
    try:
        found: dict[str, Any] = orjson.loads(
            await client.request(method, path, params=params, body=orjson.dumps(body), content_type="application/json")
        )
    except Invalid as error:
        told = "; ".join(f"{field}: {message}" for field, message in error.details) or error.message
        raise WrongUse(f"{app.kind.kind} {name} is refused: {told}") from error
    except Conflict as error:
        raise HaneiError(
            f"{app.kind.kind} {name} was changed by somebody else in between", hint="look at it again, then repeat this"
        ) from error
    return found


async def preview(client: Client, app: App[Any], namespace: str, wanted: Mapping[str, Any]) -> Preview:
    """The plan for a resource as `wanted` says. Raises `WrongUse`, `SettingsInvalid` or an error of the API server."""
    name = wanted["metadata"]["name"]
    live = await stored(client, app, namespace, name)
    proposed = await write(client, app, namespace, wanted, live, dry_run=True)
    schema = spec_schema(app)
    spec = normalise(schema, proposed.get("spec", {}))
    settings = app.parse(spec)
    own = own_of(app, name, namespace, live["metadata"]["uid"] if live is not None else "")
    made = kinds_of(app)
    sources = await snapshot(client, app, namespace, made)
    observed = gather(sources, own)
    first = render(app, settings, own, allowed=made)
    view = _unread(first, {item.component: item for item in observed.objects.values() if item.kind in kinds.WORKLOADS})
    rendered = render(app, settings, own, view, allowed=made)
    observed = with_named(sources, own, observed, rendered)
    accepted = observed.accepted
    before: Mapping[str, Any] | None = accepted.spec if accepted is not None else None
    before = with_scale(app, before, live.get("spec", {})) if before is not None and live is not None else before
    if before is None and live is not None:
        before = normalise(schema, live.get("spec", {}))
    question = Question(
        rendered=rendered, observed=observed, own=own, spec={key: item for key, item in spec.items() if key != "suspend"},
        previous={key: item for key, item in before.items() if key != "suspend"} if before is not None else None,
        render=lambda other: render(app, app.parse(normalise(schema, other)), own, view, allowed=made),
        declared=frozenset(app.components),
    )  # fmt: skip
    suspended = spec.get("suspend") is True
    return Preview(Plan() if suspended else decide(question), rendered, live, proposed, suspended)


def _unread(rendered: Rendered, live: Mapping[str, Any]) -> SecretsView:
    """Secrets are not read for a preview: every stamp stays as it is."""
    names = frozenset(ref.name for component in rendered.components for ref in component.secrets)
    stamps = {component: item.stamp for component, item in live.items() if item.stamp}
    return SecretsView(
        live=stamps, live_hash={component: item.template_hash for component, item in live.items()}, unreadable=names
    )
