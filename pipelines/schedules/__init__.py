"""Schedules: how kernels are tiled, fused and vectorised, as MLIR's transform scripts.

A schedule is a short list of verbs on named loops, one in each file that is named after the kernel
it makes. `verbs`, `byte_verbs` and `cut` have the verbs, each an operation of MLIR's or one of
`transform_ops`. `registry` knows our schedules, `user_schedule` loads those of others,
`interpreter` runs either.
"""
