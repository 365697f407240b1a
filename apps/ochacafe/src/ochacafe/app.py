"""Ochacafe: the smallest operator there is. One café, `size` pods of `image`."""

from hanei import App, Column, Container, Deployment, Own, Seen, Settings, setting


class OchacafeSpec(Settings):
    """A café that serves pods."""

    size: int = setting(ge=0, format="int32", doc="How many pods.", label={"en": "Size", "ja": "席数"})
    image: str = setting(min_length=1, klass="image", doc="The image they run.", label={"en": "Image", "ja": "イメージ"})  # fmt: skip


app = App(OchacafeSpec, group="ochacafe.oracle.com", version="v1alpha1", kind="Ochacafe", plural="ochacaves", history=0, scale="size",
          columns=[Column("Size", ".spec.size"), Column("Image", ".spec.image")], sample={"size": 2, "image": "nginx"})  # fmt: skip


@app.component
def cafe(spec: OchacafeSpec, own: Own) -> Deployment:
    return Deployment(name=own.name, replicas=spec.size, containers=[Container(image=spec.image, ports=[80])])


@app.status
def nodes(seen: Seen) -> list[str]:
    """The names of its pods."""
    return [pod.name for pod in seen.pods]
