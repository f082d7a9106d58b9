"""The llmc dialect: what a language model does, one level above linalg.

Each operation lives in a file of its own beside its meaning: the class declares operands,
attributes and results, `verify_invariants` checks them, `reference` says in numpy what it computes
(plainly, element types left aside), and `lower` says it in linalg: it returns the value to take the
result's place, or a list of them for several results.
"""

from typing import Any

from torch_mlir.dialects import ext


class Llmc(ext.Dialect, name="llmc"):
    """Operations of large language models on tensors of numbers and of blocks."""


# The base classes of operations and types, which `ext` makes at run time.
Operation: Any = Llmc.Operation
Type: Any = Llmc.Type
