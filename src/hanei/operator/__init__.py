"""The product: one controller per app."""
