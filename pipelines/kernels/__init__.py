"""Kernels of our own, and how they get into a module."""
