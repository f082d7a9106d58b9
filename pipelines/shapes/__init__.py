"""Shapes as expressions of `tokens` and `past`, and the memory that a call needs as a formula."""
