"""An app whose CRD the tests change under its feet; no other test uses it."""

from __future__ import annotations

from typing import Literal

from hanei import App, Container, Deployment, Own, Settings, as_json, setting


class FragileSpec(Settings):
    """Three settings of one component."""

    greeting: str = setting("hello")
    motto: str = setting("short")
    level: Literal["low", "high"] = setting("low")


app = App(FragileSpec, group="fragile.hanei.test", version="v1", kind="Fragile", plural="fragiles")


@app.component
def web(spec: FragileSpec, own: Own) -> Deployment:
    return Deployment(containers=[Container(image="nginx", files={"/etc/web.json": as_json(spec)})])
