"""Pure: what an author imports. `hanei/__init__.py` re-exports it and is the public API."""
