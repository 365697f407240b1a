"""Fixtures of all tests: the shared cluster and namespaces come from Hanei's own test kit."""

pytest_plugins = ["hanei.testing.plugin"]
