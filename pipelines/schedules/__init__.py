"""Schedules: how kernels are tiled, fused and vectorised, as MLIR's transform scripts.

A schedule is a short list of verbs on named loops, one in each file that is named after the kernel
it makes. `registry` knows ours, `user_schedule` loads those of others, `interpreter` runs either.
"""
