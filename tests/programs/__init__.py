"""Small random programs of llmc and linalg operations, as the importer would make them or not.

What a program is, is plain data, which hypothesis draws and shrinks (`strategies`): a `Model` or a
`Function`, each a list of steps (`blocks`, `steps`) that build their part of the IR. A `TorchPlan`
lists steps in PyTorch (`torch_steps`), which the importer itself brings to MLIR.
"""
