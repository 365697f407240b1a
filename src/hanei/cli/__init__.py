"""How people reach it: one module per command."""
