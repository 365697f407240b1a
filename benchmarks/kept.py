"""Ochacafe with records of accepted settings: the same resources, three writes each instead of two."""

from __future__ import annotations

from hanei import App, Deployment, Own, Seen
from ochacafe.app import OchacafeSpec
from ochacafe.app import cafe as _cafe
from ochacafe.app import nodes as _nodes

app = App(
    OchacafeSpec, group="ochacafe.oracle.com", version="v1alpha1", kind="Ochacafe", plural="ochacaves", history=10,
    scale="size", sample={"size": 2, "image": "nginx"},
)  # fmt: skip


@app.component
def cafe(spec: OchacafeSpec, own: Own) -> Deployment:
    """The same Deployment."""
    return _cafe(spec, own)


@app.status
def nodes(seen: Seen) -> list[str]:
    """The same status."""
    return _nodes(seen)
