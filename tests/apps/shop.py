"""An app for the system tests: one component of each kind of trouble."""

from __future__ import annotations

from typing import Literal

from hanei import (
    App,
    Container,
    Deployment,
    Own,
    Settings,
    StatefulSet,
    as_json,
    secret,
    setting,
)


class ShopSpec(Settings):
    """What the shop sells."""

    image: str = setting("nginx", min_length=1)
    greeting: str = setting("hello", doc="Read by web.")
    motto: str = setting("short", doc="Read by web in place.")
    extra: bool = setting(False, doc="Whether there is an extra component.")
    size: int = setting(10, ge=0, doc="Bytes of the file of big.")
    broken: bool = setting(False, doc="Makes broken raise.")
    fixed: str = setting("", doc="A fixed name for web.")
    password: str = setting("", secret=True, doc="A Secret that web's init container uses.")
    replicas: int = setting(2, ge=0, le=20)
    level: Literal["low", "high"] = setting("low", doc="Read by stateful and recreated.")


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


@app.component
def web(spec: ShopSpec, own: Own) -> Deployment:
    init = (
        [Container(image=spec.image, name="prepare", env={"PASSWORD": secret(spec.password, "password")})]
        if spec.password
        else []
    )
    return Deployment(
        name=spec.fixed or own.workload("web"),
        replicas=spec.replicas,
        init=init,
        containers=[
            Container(
                image=spec.image,
                ports=[80],
                files={"/etc/shop/web.json": as_json({"greeting": spec.greeting})},
                live_files={"/etc/motto/motto.txt": spec.motto + "\n"},
            )
        ],
        service=[80],
    )


@app.component
def extra(spec: ShopSpec, own: Own) -> Deployment | None:
    return Deployment(containers=[Container(image=spec.image)], service=[8080]) if spec.extra else None


@app.component
def big(spec: ShopSpec, own: Own) -> Deployment:
    return Deployment(containers=[Container(image="nginx", files={"/etc/big": "x" * spec.size})])


@app.component
def broken(spec: ShopSpec, own: Own) -> Deployment:
    if spec.broken:
        raise RuntimeError("the author's mistake")
    return Deployment(containers=[Container(image="nginx")])


@app.component
def stateful(spec: ShopSpec, own: Own) -> StatefulSet:
    return StatefulSet(
        replicas=2, update="OnDelete", containers=[Container(image="nginx", ports=[1234], env={"LEVEL": spec.level})]
    )


@app.component
def recreated(spec: ShopSpec, own: Own) -> Deployment:
    return Deployment(strategy="Recreate", containers=[Container(image="nginx", env={"LEVEL": spec.level})])
