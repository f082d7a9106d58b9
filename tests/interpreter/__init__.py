"""Runs modules of llmc, linalg, tensor, arith and math operations in numpy, without a compiler.

What is left of PyTorch's operations, in the torch dialect, PyTorch itself runs.

It is for comparing a module before and after passes. What is f32 in the module is computed in
float64, so that two modules that say the same agree far better than float32 would let them: what is
left is the rounding of constants. The llmc operations are run by their references, not lowered.
"""

from tests.interpreter import (  # noqa: F401 (evaluators)
    llmc_ops,
    scalars,
    structured,
    tensors,
    torch_ops,
)
from tests.interpreter.machine import Machine, Values

__all__ = ["Machine", "Values"]
