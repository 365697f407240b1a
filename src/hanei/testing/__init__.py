"""The test kit for authors: a real API server for a test session, and a namespace for each test.

Switched on by ``pytest_plugins = ["hanei.testing.plugin"]`` in the top ``conftest.py``. Nothing in Hanei imports it.
"""
