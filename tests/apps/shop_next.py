"""The shop's next version: `big` is gone, `extra` is called `annex`, and `recreated` is rendered differently."""

from __future__ import annotations

from hanei import App, Container, Deployment, Own, StatefulSet
from tests.apps import shop
from tests.apps.shop import ShopSpec

app = App(
    ShopSpec,
    group="shop.hanei.test",
    version="v1",
    kind="Shop",
    plural="shops",
    short_names=["shp"],
    scale="replicas",
    history=3,
    sample={"password": "shop-secret"},
)
app.component("web")(shop.web)
app.component("broken")(shop.broken)
app.component("stateful")(shop.stateful)


@app.component
def annex(spec: ShopSpec, own: Own) -> Deployment | None:
    return Deployment(containers=[Container(image=spec.image)], service=[8080]) if spec.extra else None


@app.component
def recreated(spec: ShopSpec, own: Own) -> Deployment:
    return Deployment(
        strategy="Recreate", containers=[Container(image=spec.image, env={"LEVEL": spec.level, "NEW": "1"})]
    )


__all__ = ["StatefulSet", "app"]
