"""What transform operations that make vectors of a tile share: reading, writing and repeating."""

from torch_mlir import ir
from torch_mlir.dialects import vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index


def read_vector(source: ir.Value, type_: ir.VectorType, where: list[ir.Value]) -> ir.Value:
    """The vector of `type_` that begins at `where`, along the last dimensions of a tensor."""
    map_ = ir.AffineMap.get_minor_identity(len(where), type_.rank)
    zero = 0 if isinstance(type_.element_type, ir.IntegerType) else 0.0
    padding = constant(zero, type_.element_type)
    return vector.transfer_read(type_, source, where, map_, padding, [True] * type_.rank)


def write_vector(value: ir.Value, into: ir.Value, dims: list[int]) -> ir.Value:
    """`into` with `value` written over its beginning, along the dimensions `dims`."""
    where = [index(0)] * into.type.rank
    map_ = ir.AffineMap.get(into.type.rank, 0, [ir.AffineDimExpr.get(dim) for dim in dims])
    return vector.transfer_write(into.type, value, into, where, map_, [True] * value.type.rank)


def repeated_word(word: ir.Value, lanes: int) -> ir.Value:
    """Numbers that are 32 bits together, `lanes` times."""
    i32, (count,) = T.i32(), word.type.shape
    number = vector.extract(vector.bitcast(ir.VectorType.get([1], i32), word), [], [0])
    repeated = vector.broadcast(ir.VectorType.get([lanes], i32), number)
    return vector.bitcast(ir.VectorType.get([lanes * count], word.type.element_type), repeated)
