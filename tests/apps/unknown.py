"""An app whose CRD no cluster has."""

from __future__ import annotations

from hanei import App, Container, Deployment, Own, Settings, setting


class UnknownSpec(Settings):
    """Nothing much."""

    image: str = setting("nginx")


app = App(UnknownSpec, group="unknown.hanei.test", version="v1", kind="Unknown", plural="unknowns")


@app.component
def one(spec: UnknownSpec, own: Own) -> Deployment:
    return Deployment(containers=[Container(image=spec.image)])
