"""A smart lock of five containers that share one set of settings."""
