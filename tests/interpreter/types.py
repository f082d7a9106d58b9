"""How types of MLIR are held in numpy."""

import ml_dtypes
import numpy as np
from torch_mlir import ir

from llmc.dialects.block_types import StoredType

_FLOATS = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


def dtype_of(type_: ir.Type) -> np.dtype:
    """How a number, block or cell of `type_` is held: f32 as float64, others as they are."""
    if isinstance(type_, StoredType):
        return type_.format.dtype
    if isinstance(type_, ir.IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, ir.IntegerType):
        sign = "u" if type_.is_unsigned else ""
        return np.dtype(np.bool_ if type_.width == 1 else f"{sign}int{type_.width}")
    return _FLOATS[str(type_)]


def element_of(value: ir.Value) -> np.dtype:
    """How the elements of a tensor, or a scalar, are held."""
    return dtype_of(getattr(value.type, "element_type", value.type))


def dense(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The elements of a constant."""
    dtype = dtype_of(attribute.type.element_type)
    if attribute.is_splat:
        return np.full(attribute.type.shape, attribute.get_splat_value().value, dtype)
    return np.array(attribute).astype(dtype)


def undefined(shape: list[int], dtype: np.dtype) -> np.ndarray:
    """An array of what nobody should read: NaN, or else numbers that stand out."""
    if dtype.names or dtype == np.bool_:
        return np.zeros(shape, dtype)
    if np.issubdtype(dtype, np.integer):
        return np.full(shape, np.iinfo(dtype).max // 3, dtype)
    return np.full(shape, np.nan, dtype)
