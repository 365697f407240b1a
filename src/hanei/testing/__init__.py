"""Public test kit for authors."""
