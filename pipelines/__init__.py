"""MLIR to MLIR to IREE: passes, pipelines, targets."""
