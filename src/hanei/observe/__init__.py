"""Logs and metrics, importable by all."""
