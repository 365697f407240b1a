"""Faults between the operator and the real API server, and what must hold all the same."""
