"""Which operations read the weights of a model, and as which operand."""

LINEARS = {("llmc.linear", 1), ("llmc.expert_linear", 2)}
"""Linear layers, be they of experts, on weights as the model has them."""

EMBEDDINGS = {("llmc.embedding", 1)}
"""Lookups of tokens."""
