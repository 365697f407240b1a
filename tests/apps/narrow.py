"""Ochacafe with a narrower size: what `hanei crd --diff` must warn of."""

from __future__ import annotations

from hanei import App, Container, Deployment, Own, Settings, setting


class NarrowSpec(Settings):
    """A smaller café."""

    size: int = setting(ge=0, le=10, format="int32", doc="How many pods.")
    image: str = setting(min_length=1, doc="The image they run.")


app = App(
    NarrowSpec,
    group="ochacafe.oracle.com",
    version="v1alpha1",
    kind="Ochacafe",
    plural="ochacaves",
    scale="size",
    history=0,
)


@app.component
def cafe(spec: NarrowSpec, own: Own) -> Deployment:
    return Deployment(name=own.name, replicas=spec.size, containers=[Container(image=spec.image)])
