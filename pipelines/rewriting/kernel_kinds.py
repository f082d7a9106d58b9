"""What kind of kernel an operation of linalg makes: a matrix product, a reduction and so on."""

from torch_mlir import ir
from torch_mlir.dialects import linalg

MATMUL, MATVEC, CONTRACTION = "matmul", "matvec", "contraction"
REDUCTION, ELEMENTWISE = "reduction", "elementwise"
SUMS_OF_PRODUCTS = (MATMUL, MATVEC, CONTRACTION)


def kernel_kind(op: ir.Operation) -> str | None:
    """The kind of kernel that `op` makes; None where it is not a computation of linalg on tensors.

    A `matmul` has loops over rows, columns and a sum; of one row it is a `matvec`. Other sums of
    products are a `contraction`.
    """
    if op.name == "linalg.softmax":
        return REDUCTION
    maps = _indexing_maps(op)
    if maps is None or len(op.results) == 0:
        return None
    *_, out = maps
    if linalg.isa_contraction_op(op):
        return _kind_of_contraction(op, maps)
    kept = {each.position for each in out.results if isinstance(each, ir.AffineDimExpr)}
    return ELEMENTWISE if len(kept) == out.n_dims else REDUCTION


def reads_in_place(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an elementwise `op` reads each element of its operand `value` once."""
    maps = _indexing_maps(op)
    return maps is not None and all(
        map_.is_permutation
        for operand, map_ in zip(op.operands, maps, strict=True)
        if operand == value
    )


def _kind_of_contraction(op: ir.Operation, maps: list[ir.AffineMap]) -> str:
    dims = linalg.infer_contraction_dimensions(op)
    rows, columns, sums = list(dims.m), list(dims.n), list(dims.k)
    if list(dims.batch) or len(columns) > 1 or len(rows) > 1 or len(sums) != 1:
        return CONTRACTION
    if not rows or not columns or _extent(op, maps, rows[0]) == 1:
        return MATVEC
    return MATMUL


def _extent(op: ir.Operation, maps: list[ir.AffineMap], loop: int) -> int | None:
    """How often a loop runs; None where that is dynamic."""
    for operand, map_ in zip(op.operands, maps, strict=True):
        for dim, each in enumerate(map_.results):
            is_it = isinstance(each, ir.AffineDimExpr) and each.position == loop
            if is_it and not operand.type.is_dynamic_dim(dim):
                return operand.type.get_dim_size(dim)
    return None


def _indexing_maps(op: ir.Operation) -> list[ir.AffineMap] | None:
    """Of the operands of a structured operation on tensors; None of other operations."""
    maps = linalg.get_indexing_maps(op) if op.name.startswith("linalg.") else None
    return None if maps is None else [ir.AffineMapAttr(each).value for each in maps]
