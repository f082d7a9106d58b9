"""PyTorch to MLIR: reads models, exports them, imports them through torch-mlir."""
