"""Where an operation reads one row to make one row: what can be computed for a row alone."""

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.dimensions import ROWS, dimensions
from llmc.pipelines.rewriting.generics import maps
from llmc.pipelines.rewriting.purity import is_pure
from llmc.pipelines.walks import walk

Reads = list[tuple[int, int]]  # operands by number, and a dimension of each


def reads_of(op: ir.Operation, dim: int) -> Reads:
    """Where `op` reads row i, and i alone, for row i of its result's dimension `dim`.

    Empty where it reads others too, or cannot tell.
    """
    if op.name == "tensor.cast":
        return [(0, dim)] if isinstance(op.operands[0].type, ir.RankedTensorType) else []
    if op.name == "tensor.collapse_shape":
        return _collapse_reads(op.opview, dim)
    if op.name == "linalg.fill":
        return [(1, dim)]
    if op.name == "linalg.transpose":
        return [(0, list(op.attributes["permutation"])[dim]), (1, dim)]
    if op.name == "linalg.generic":
        return _generic_reads(op, dim)
    return _lettered_reads(op, dim)


def _collapse_reads(op: tensor.CollapseShapeOp, dim: int) -> Reads:
    group = [ir.IntegerAttr(d).value for d in op.reassociation[dim]]
    long = [d for d in group if op.src.type.shape[d] != 1]
    return [(0, long[0])] if len(long) == 1 else []


def _generic_reads(op: ir.Operation, dim: int) -> Reads:
    plain = (ir.AffineDimExpr, ir.AffineConstantExpr)
    if not all(isinstance(expr, plain) for map_ in maps(op) for expr in map_.results):
        return []
    loop = maps(op)[-1].results[dim]
    if len(op.results) != 1 or isinstance(loop, ir.AffineConstantExpr) or not is_pure(op):
        return []
    inner = [inner for inner in walk(op) if inner.name == "linalg.index"]
    if any(index.attributes["dim"].value == loop.position for index in inner):
        return []
    reads = [
        (number, position)
        for number, map_ in enumerate(maps(op))
        for position, expr in enumerate(map_.results)
        if expr == loop
    ]
    on_a_diagonal = len({number for number, _ in reads}) < len(reads)
    return [] if on_a_diagonal else reads


def _lettered_reads(op: ir.Operation, dim: int) -> Reads:
    operands, results = dimensions(op.opview)
    letters = {its[dim] for its in results}
    if len(letters) != 1 or not letters.issubset(ROWS):
        return []
    return [
        (number, position)
        for number, its in enumerate(operands)
        for position, letter in enumerate(its)
        if letter in letters
    ]
