"""Set-up of all tests: the shared cluster and namespaces come from Hanei's own test kit."""

from __future__ import annotations

import asyncio
import os
import signal

import hypothesis
import pytest

pytest_plugins = ["hanei.testing.plugin"]

# Where the run decides what lands, the examples are the same each time; at the desk they are new ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.register_profile("desk", deadline=None, max_examples=50)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")

_LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the process an event loop that we close: pytest-asyncio puts the one that it found back after each test, and
    without one it makes one that nobody closes, which is an error here whenever the collector finds it.

    A run in the background has SIGINT ignored, and its children too; some tests interrupt theirs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_LOOP] = asyncio.new_event_loop()
    asyncio.set_event_loop(config.stash[_LOOP])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close it."""
    loop = config.stash.get(_LOOP, None)
    if loop is not None:
        loop.close()
