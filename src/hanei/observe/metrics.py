"""What the operator counts about itself, as Prometheus metrics in a registry of its own.

One `Metrics` belongs to one client and its manager, so two of them in one process (tests, `hanei dev`) never mix and
no module holds state. Served by `hanei.runtime.http`; `docs/reference/metrics.md` explains each. Labels hold names of
kinds, verbs and controllers only: never a resource's name, so their number is bounded, and never a secret.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one operator process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.workqueue_depth = Gauge(
            "hanei_workqueue_depth", "Keys due that wait for a worker.", ["controller"], registry=self.registry
        )
        self.reconciles = Counter(
            "hanei_reconcile", "Reconciles by how they ended.", ["controller", "result"], registry=self.registry
        )
        self.reconcile_errors = Counter(
            "hanei_reconcile_errors", "Reconciles that failed.", ["controller"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "hanei_reconcile_duration_seconds",
            "How long a reconcile took.",
            ["controller"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.api_requests = Counter(
            "hanei_api_requests",
            "Requests to the API server by verb and HTTP code ('none': no answer).",
            ["verb", "code"],
            registry=self.registry,
        )
        self.watch_restarts = Counter(
            "hanei_watch_restarts", "Watches that ended in an error or silence.", ["kind"], registry=self.registry
        )
        self.leader = Gauge("hanei_leader", "1 while this process holds the Lease.", registry=self.registry)

    def request(self, verb: str, status: int) -> None:
        """Count one request; a status of 0 means that no answer came."""
        self.api_requests.labels(verb, str(status) if status else "none").inc()

    def text(self) -> bytes:
        """Everything in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)
