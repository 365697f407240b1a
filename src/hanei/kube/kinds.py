"""Moved to `hanei.kinds`, which every layer may import."""

from hanei.kinds import *  # noqa: F403
