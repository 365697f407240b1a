"""The engine, without product knowledge."""
