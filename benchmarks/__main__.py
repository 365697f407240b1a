"""`make bench`: how close the operator comes to the limit, and how its peers do, in one run on one machine.

etcd and the API server alone (no controllers, no nodes), N Ochacafes, a fresh cluster for each program. BENCH_N chooses
the sizes (100,1000), BENCH_ONLY the programs (hanei, controller-runtime, kopf, "hanei with records"). A program that
fails to finish is told in the table. Results are kept in benchmarks/results.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.contestants import ALL, build
from benchmarks.measure import Lines, bare, contestant

if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS = {
    "rate": "resources converged per second",
    "cpu_ms": "client CPU per resource, without start-up, ms",
    "cpu_all_ms": "client CPU per resource, with start-up, ms",
    "startup_cpu_s": "CPU of a start, s",
    "memory_mib": "resident memory, MiB",
    "memory_empty_mib": "resident memory without any resource, MiB",
    "growth_kib": "memory per resource with its Deployment, KiB",
    "pod_kib": "memory per watched pod, KiB",
    "writes": "writes per resource",
    "reads": "single reads per resource",
    "requests": "requests until converged",
    "round_trip_ms": "one apply, nobody else about, p50, ms",
    "change_p50_ms": "change → Deployment, p50, ms",
    "change_p99_ms": "change → Deployment, p99, ms",
    "change_writes": "writes per change",
    "change_reads": "single reads per change",
    "together_rate": "all changed at once: changes per second",
    "together_writes": "all changed at once: writes per change",
    "restart_writes": "restart: writes",
    "restart_reads": "restart: single reads",
    "restart_requests": "restart: requests",
    "restart_cpu_s": "restart: CPU, s",
    "restart_memory_mib": "restart: resident memory, MiB",
    "restart_s": "restart: seconds until a change made meanwhile is applied",
    "neighbour_p99_ms": "change → Deployment beside a slow one, p99, ms",
    "neighbour_p99_ratio": "the same, to that without a slow one",
    "plan_s": "hanei plan, the whole command, s",
}


def main() -> None:
    """Measure for each N, print one table per N, keep all as JSON."""
    sizes = [int(text) for text in os.environ.get("BENCH_N", "100,1000").split(",")]
    only = [text.strip() for text in os.environ.get("BENCH_ONLY", "").split(",") if text.strip()]
    chosen = [who for who in ALL if not only or who.name in only]
    if any(who.name in ("kopf", "controller-runtime") for who in chosen):
        build()
    results: dict[str, dict[str, Lines]] = {}
    for size in sizes:
        found: dict[str, Lines] = {}
        for app in dict.fromkeys(who.app for who in chosen):
            name = "bare" if app.startswith("ochacafe") else "bare with records"
            print(f"N = {size}: {name}", flush=True)
            found[name] = asyncio.run(bare(app, size))
        for who in chosen:
            print(f"N = {size}: {who.name}", flush=True)
            try:
                found[who.name] = asyncio.run(contestant(who, size))
            except Exception as error:  # a program that fails is told, and the others are measured
                where = traceback.extract_tb(error.__traceback__)
                print(f"  did not finish: {error!r}, in {' > '.join(frame.name for frame in where[-6:])}", flush=True)
        show(size, found)
        results[str(size)] = found
    keep(results)


def keep(results: Mapping[str, Mapping[str, Lines]]) -> None:
    """Results with what they were measured on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_before": LOAD,
    }
    target = Path(__file__).parent / "results" / "latest.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(about | {"n": results}, indent=2) + "\n")


def show(size: int, found: Mapping[str, Lines]) -> None:
    """The table of one N."""
    table = Table("", *found, title=f"N = {size}, etcd and API server alone, {os.cpu_count()} cores")
    for column in table.columns[1:]:
        column.justify = "right"
    for key, text in ROWS.items():
        values = [found[name].get(key) for name in found]
        if any(value is not None for value in values):
            table.add_row(text, *("" if value is None else f"{value:,.2f}" for value in values))
    Console(width=max(120, 50 + 22 * len(found))).print(table)


LOAD = os.getloadavg()[0]

if __name__ == "__main__":
    main()
