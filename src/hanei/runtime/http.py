"""`/healthz`, `/readyz` and `/metrics` over HTTP, on loopback unless told otherwise.

Opened by the manager while it runs. It only reports what the manager knows; that it answers at all shows that the loop
turns. The one module outside `hanei.kube` that uses aiohttp, and only as a server.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from hanei.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.Response]]


class Probed(Protocol):
    """What is reported."""

    def health(self) -> list[str]:
        """What is wrong so that only a restart may help; empty when alive."""
        ...

    def readiness(self) -> list[str]:
        """What is still missing; empty when ready."""
        ...

    def metrics_text(self) -> bytes:
        """Metrics in the format of Prometheus."""
        ...


@contextlib.asynccontextmanager
async def serving(probed: Probed, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve while the block runs; yields the address in use. Port 0 picks a free one. Raises WrongUse if taken."""
    app = web.Application()
    app.router.add_get("/healthz", _report(probed.health))
    app.router.add_get("/readyz", _report(probed.readiness))
    app.router.add_get("/metrics", _metrics(probed))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise WrongUse(
                f"{host}:{port}, wanted for health and metrics: {error.strerror}",
                hint="Another operator may be running: choose another port, or 0 for any free one.",
            ) from error
        address = runner.addresses[0]
        yield str(address[0]), int(address[1])
    finally:
        await runner.cleanup()


def _report(problems: Callable[[], list[str]]) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        found = problems()
        return web.Response(status=503 if found else 200, text="\n".join(found or ["ok"]) + "\n")

    return handler


def _metrics(probed: Probed) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=probed.metrics_text(), content_type="text/plain", charset="utf-8")

    return handler
