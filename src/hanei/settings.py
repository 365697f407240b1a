"""The operator's own knobs: time-outs, intervals and limits, in one frozen value.

Made by the CLI (or a test), handed down to `hanei.kube`, `hanei.runtime` and `hanei.operator`. Defaults are for
production; tests scale them down with `dataclasses.replace`. These are not the settings of an application, which are
`hanei.app.settings`. Nothing here reads the environment or the clock. All times are seconds.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from hanei.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Iterable


def _knob(default: Any, doc: str) -> Any:
    """A field whose documentation can be read by the generated reference."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Time-outs, intervals and limits of one operator process, in seconds unless a name says otherwise."""

    # Talking to the API server.
    connect_timeout: float = _knob(5.0, "Longest wait for a TCP and TLS connection to the API server.")
    request_timeout: float = _knob(30.0, "Longest wait for the answer to one request (watches apart).")
    connection_limit: int = _knob(64, "Connections for requests kept open at once; each watch has one of its own.")
    read_buffer: int = _knob(4 * 1024 * 1024, "Bytes buffered per connection; an object may be 1.5 MB on one line.")
    keepalive_idle: int = _knob(15, "Idle time after which TCP probes the peer, so a dead network is noticed.")
    token_reread: float = _knob(60.0, "How often token and certificate files are read again (a 401 does it at once).")
    exec_timeout: float = _knob(60.0, "Longest run of a credential plugin.")

    # Watching.
    list_page: int = _knob(500, "Objects asked for per page of a list.")
    watch_timeout: float = _knob(120.0, "Length of one watch asked of the server, lengthened by up to half at random.")
    watch_silence: float = _knob(
        75.0, "How long a watch that says nothing is believed alive; servers send a bookmark each minute."
    )
    watch_backoff: float = _knob(10.0, "Longest wait between two attempts to list or watch.")
    relist: float = _knob(3600.0, "How often a watched kind is listed anew even if its watch looks well.")
    overlay_life: float = _knob(60.0, "How long an own write is laid over a cache that does not show it yet.")
    deaf_after: float = _knob(300.0, "Time without any contact of an informer after which /healthz fails.")

    # Reconciling.
    workers: int = _knob(16, "Reconciles of one controller that run at once.")
    resync: float = _knob(600.0, "How often everything is reconciled from the cache without any cause.")
    backoff_base: float = _knob(0.2, "First wait after a failed reconcile; doubled each time.")
    backoff_cap: float = _knob(60.0, "Longest wait after a failed reconcile.")
    refused_retry: float = _knob(300.0, "Wait after a failure that trying again cannot mend by itself.")

    # Collecting what nobody needs any more.
    collect_interval: float = _knob(300.0, "How often slices and records that nobody needs are looked for.")
    slice_age: float = _knob(600.0, "Youngest age of a slice that may be collected.")

    # The process.
    lease_duration: float = _knob(15.0, "How long a Lease holds that is not renewed; rounded up to whole seconds.")
    renew_deadline: float = _knob(10.0, "Time without a renewal after which the leader stops working.")
    retry_period: float = _knob(2.0, "Time between two renewals, or two attempts to become leader.")
    stop_grace: float = _knob(3.0, "How long running reconciles may finish after a stop was asked for.")
    release_timeout: float = _knob(1.0, "Longest wait for giving back the Lease while stopping.")
    http_host: str = _knob("127.0.0.1", "Address of /healthz, /readyz and /metrics.")
    http_port: int | None = _knob(8480, "Port of these; 0 picks a free one, none serves nothing.")

    def __post_init__(self) -> None:
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError("retry_period < renew_deadline < lease_duration must hold, or two could lead at once")


def tuned(settings: OperatorSettings, values: Iterable[str]) -> OperatorSettings:
    """`settings` with some knobs turned, each given as ``name=value``. WrongUse names the knob and what would be right."""
    knobs: dict[str, Any] = {knob.name: knob.default for knob in fields(OperatorSettings)}
    changes: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if name not in knobs or not equals:
            close = difflib.get_close_matches(name, knobs, 1)
            raise WrongUse(
                f"{text!r} turns no knob",
                hint=f"write {close[0] if close else 'workers'}=VALUE; docs/reference/configuration.md lists them",
            )
        try:
            changes[name] = type(knobs[name])(value)
        except ValueError:
            raise WrongUse(f"{name}: found {value!r}, expected a number such as {knobs[name]}") from None
    try:
        return replace(settings, **changes)
    except ValueError as error:
        raise WrongUse(str(error)) from None


def documented() -> tuple[tuple[str, Any, str], ...]:
    """Every knob as (name, default, doc), for the generated reference."""
    return tuple((knob.name, knob.default, str(knob.metadata["doc"])) for knob in fields(OperatorSettings))
