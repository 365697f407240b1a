"""Pure: what must change, how, and why."""
