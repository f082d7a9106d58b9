"""Schedules: how kernels are tiled, fused and vectorised, as MLIR's transform scripts.

A schedule is a short list of verbs on named loops. A file has that of one kind of kernel, and of
what is computed alike: rows of experts, a single panel. `strategies` says which schedule a kernel
gets, with which parameters (`*_choices`); `gpu_dispatches` does so for GPUs, whose schedules
(`gpu_*`) set how IREE lowers. `verbs`, `instruction_verbs` and `cut` have the verbs, each an
operation of MLIR's or one of `transform_ops`. `registry` knows our schedules, `user_schedule` loads
those of others, `interpreter` runs either.
"""
