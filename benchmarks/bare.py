"""The limit: the very writes that Hanei makes, straight over one HTTP session with 16 connections, by a process of its own.

`python -m benchmarks.bare KUBECONFIG RESOURCES.json APP`; prints what it used, as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hanei import kinds
from hanei.cluster.http import endpoint
from hanei.operator.records import record_body
from hanei.operator.resource import Resource
from hanei.operator.status import Report, status_of
from hanei.plan.decide import Question, decide
from hanei.plan.observed import Observed
from hanei.render.render import own_of, render

if TYPE_CHECKING:
    from hanei import App

CONNECTIONS = 16
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def bodies(app: App[Any], item: dict[str, Any]) -> list[tuple[str, bytes]]:
    """(path, what is applied) for one resource, in order: Deployment, record where the app keeps them, status."""
    meta, spec = item["metadata"], item["spec"]
    own = own_of(app, meta["name"], meta["namespace"], meta["uid"])
    rendered = render(app, app.parse(spec), own)
    observed = Observed(own.uid)
    plan = decide(Question(rendered, observed, own, spec, None, lambda _: rendered, declared=frozenset(app.components)))
    found = [(write.kind.path(own.namespace, write.name), orjson.dumps(write.body)) for write in plan.writes]
    report = Report(rendered, observed, scale_component="cafe")
    if app.history:
        record = record_body(app, own, spec, rendered, (), 1)
        report.revision = record["metadata"]["name"]
        found.append((kinds.CONTROLLER_REVISION.path(own.namespace, report.revision), orjson.dumps(record)))
    status = {
        "apiVersion": app.kind.api_version,
        "kind": own.kind,
        "metadata": {"name": own.name, "namespace": own.namespace, "uid": own.uid},
        "status": status_of(app, Resource(own, 1, "1", spec, {}), report, "2026-01-01T00:00:00Z"),
    }
    return [*found, (app.kind.path(own.namespace, own.name, "status"), orjson.dumps(status))]


async def run(kubeconfig: Path, app: App[Any], made: list[dict[str, Any]]) -> dict[str, float]:
    """Everything prepared, then written; CPU is that of the writing."""
    server = endpoint(kubeconfig)
    work = [bodies(app, item) for item in made]
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": "bare"}
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=server.tls or True)
    took: list[float] = []
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(writes: list[tuple[str, bytes]]) -> None:
            async with gate:
                for path, body in writes:
                    began = time.perf_counter()
                    url = f"{server.server}{path}?fieldManager=bare&force=true"
                    async with session.patch(url, data=body, headers=APPLY) as answer:
                        await answer.read()
                        assert answer.status in (200, 201), await answer.text()
                    took.append(time.perf_counter() - began)

        cpu = time.process_time()
        await asyncio.gather(*map(one, work))
        used = time.process_time() - cpu
        alone = []
        for writes in work[:50]:  # one round trip with nobody else about
            began = time.perf_counter()
            async with session.patch(f"{server.server}{writes[0][0]}?fieldManager=bare&force=true", data=writes[0][1], headers=APPLY) as answer:  # fmt: skip
                await answer.read()
            alone.append(time.perf_counter() - began)
    return {"cpu_ms": used * 1000 / len(made), "round_trip_ms": sorted(alone)[len(alone) // 2] * 1000}


if __name__ == "__main__":
    module, _, attribute = sys.argv[3].partition(":")
    chosen = getattr(importlib.import_module(module), attribute)
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), chosen, json.loads(Path(sys.argv[2]).read_text())))))
