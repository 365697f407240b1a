"""How the operator logs: structlog with constant messages and key/value pairs.

`setup` is called once by the CLI; without it structlog's own defaults hold, so a library user's set-up stays. On a
terminal lines are for people, elsewhere each is one JSON object. `HANEI_LOG` holds a level, a format (``json`` or
``console``) or both: ``HANEI_LOG=debug,json``. Values under keys that name a credential are never written.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

import structlog

from hanei.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("json", "console")
_SECRET_KEYS = frozenset({"authorization", "token", "password", "secret", "credentials", "client_key"})


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `name` as ``logger``."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def setup(environ: Mapping[str, str] | None = None) -> None:
    """Set up logging of the whole process from `HANEI_LOG`; raise ConfigError for a word that it does not know."""
    level, style = _wanted((os.environ if environ is None else environ).get("HANEI_LOG", ""))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    # Local variables of a traceback may hold credentials, so neither form shows them.
    tracebacks = structlog.processors.ExceptionRenderer(
        structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    )
    plain = structlog.dev.plain_traceback
    shown: list[Processor] = (
        [tracebacks, structlog.processors.JSONRenderer()]
        if style == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shown],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank every value whose key names a credential, whoever logs it."""
    for key in _SECRET_KEYS & event.keys():
        event[key] = "(hidden)"
    return event


def _wanted(spec: str) -> tuple[int, str]:
    """Level and format asked for by `HANEI_LOG`."""
    level, style = "info", "console" if sys.stderr.isatty() else "json"
    for word in filter(None, (part.strip().lower() for part in spec.split(","))):
        if word in LEVELS:
            level = word
        elif word in FORMATS:
            style = word
        else:
            known = ", ".join((*LEVELS, *FORMATS))
            raise ConfigError(f"HANEI_LOG: {word!r} is neither a level nor a format", hint=f"Known are {known}.")
    return logging.getLevelNamesMapping()[level.upper()], style
