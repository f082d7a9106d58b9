"""The llmc dialect: what a language model does, one level above linalg.

Each operation lives in a file of its own beside its meaning: the class declares operands,
attributes and results, `verify_invariants` checks them, and `lower` says in linalg what it
computes.
"""

from typing import Any

from torch_mlir.dialects import ext


class Llmc(ext.Dialect, name="llmc"):
    """Operations of large language models on builtin tensors."""


# The base class of the operations, which `ext` makes at run time.
Operation: Any = Llmc.Operation
