"""Logs and metrics. Any layer may import it; it imports none of them."""
