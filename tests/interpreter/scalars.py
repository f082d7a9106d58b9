"""arith and math: on scalars, on tensors element by element, and in bodies of linalg.generic.

In a body a scalar is an array over the loops, with extent 1 where it does not depend on one.
"""

import math
from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from tests.interpreter.machine import Frame, Values, evaluates
from tests.interpreter.types import dense, element_of

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _unsigned(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def on_unsigned(*values: np.ndarray) -> np.ndarray:
        arrays = [np.asarray(value) for value in values]
        return function(*(a.view(a.dtype.str.replace("i", "u")) for a in arrays))

    return on_unsigned


def _truncated_division(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_POINTWISE: dict[str, Callable[..., np.ndarray]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.andi": np.bitwise_and,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": _unsigned(lambda a, b: a // b + (a % b > 0)),
    "arith.divf": np.divide,
    "arith.divsi": _truncated_division,
    "arith.divui": _unsigned(np.floor_divide),
    "arith.extf": np.positive,
    "arith.extsi": lambda a: np.where(a, -1, 0) if a.dtype == np.bool_ else a,
    "arith.extui": lambda a: a if a.dtype == np.bool_ else _unsigned(np.positive)(a),
    "arith.floordivsi": np.floor_divide,
    "arith.fptosi": np.trunc,
    "arith.fptoui": np.trunc,
    "arith.index_cast": np.positive,
    "arith.index_castui": _unsigned(np.positive),
    "arith.maximumf": np.maximum,
    "arith.maxnumf": np.fmax,
    "arith.maxsi": np.maximum,
    "arith.maxui": _unsigned(np.maximum),
    "arith.minimumf": np.minimum,
    "arith.minnumf": np.fmin,
    "arith.minsi": np.minimum,
    "arith.minui": _unsigned(np.minimum),
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.negf": np.negative,
    "arith.ori": np.bitwise_or,
    "arith.remsi": lambda a, b: a - b * _truncated_division(a, b),
    "arith.remui": _unsigned(np.remainder),
    "arith.select": np.where,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": _unsigned(np.right_shift),
    "arith.sitofp": np.positive,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.truncf": np.positive,
    "arith.trunci": lambda a: a,
    "arith.uitofp": lambda a: a if a.dtype == np.bool_ else _unsigned(np.positive)(a),
    "arith.xori": np.bitwise_xor,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.ceil": np.ceil,
    "math.copysign": np.copysign,
    "math.cos": np.cos,
    "math.erf": _erf,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.floor": np.floor,
    "math.fma": lambda a, b, c: a * b + c,
    "math.fpowi": np.power,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.powf": np.power,
    "math.round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
    "math.roundeven": np.rint,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.sin": np.sin,
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
}

# By the number of the predicate.
_INTEGER_COMPARISONS = [
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    _unsigned(np.less),
    _unsigned(np.less_equal),
    _unsigned(np.greater),
    _unsigned(np.greater_equal),
]
_FLOAT_COMPARISONS = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    7: lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    9: lambda a, b: ~(a <= b),
    10: lambda a, b: ~(a < b),
    11: lambda a, b: ~(a >= b),
    12: lambda a, b: ~(a > b),
    13: np.not_equal,
    14: lambda a, b: np.isnan(a) | np.isnan(b),
}


@evaluates(*_POINTWISE)
def _pointwise(frame: Frame, op: ir.Operation) -> Values:
    with np.errstate(over="ignore"):  # as of exp, whose inverse is 0
        value = _POINTWISE[op.name](*(np.asarray(operand) for operand in frame.operands(op)))
    return [np.asarray(value).astype(element_of(op.results[0]))]


@evaluates("arith.cmpi")
def _compare_integers(frame: Frame, op: ir.Operation) -> Values:
    return [_INTEGER_COMPARISONS[_predicate(op)](*frame.operands(op))]


@evaluates("arith.cmpf")
def _compare_floats(frame: Frame, op: ir.Operation) -> Values:
    return [_FLOAT_COMPARISONS[_predicate(op)](*frame.operands(op))]


def _predicate(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["predicate"]).value


@evaluates("arith.constant")
def _constant(frame: Frame, op: ir.Operation) -> Values:
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return [dense(attribute)]
    return [np.asarray(attribute.value).astype(element_of(op.results[0]))]


@evaluates("arith.bitcast")
def _bitcast(frame: Frame, op: ir.Operation) -> Values:
    """Through the bits that the types have in the module."""
    (value,), (operand,), (result,) = frame.operands(op), op.operands, op.results
    narrow = {"f32": np.float32}
    before, after = (
        narrow.get(str(getattr(v.type, "element_type", v.type)), element_of(v))
        for v in (operand, result)
    )
    return [np.asarray(value).astype(before).view(after).astype(element_of(result))]
