"""Cuts a module down to what still shows a bug, as mlir-reduce does with upstream's own passes."""
