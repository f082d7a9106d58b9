"""The attributes of llmc operations from Python's numbers."""

from torch_mlir import ir
from torch_mlir.extras import types as T


def i32(value: int) -> ir.IntegerAttr:
    """`value : i32`."""
    return ir.IntegerAttr.get(T.i32(), value)


def i64(value: int) -> ir.IntegerAttr:
    """`value : i64`."""
    return ir.IntegerAttr.get(T.i64(), value)


def f64(value: float) -> ir.FloatAttr:
    """`value : f64`."""
    return ir.FloatAttr.get_f64(value)
