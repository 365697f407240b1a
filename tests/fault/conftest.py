"""The system tests' fixtures, for faults too."""

from tests.system.conftest import cluster, keeper, operator, world

__all__ = ["cluster", "keeper", "operator", "world"]
