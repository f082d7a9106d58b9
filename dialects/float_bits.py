"""The parts of floats in MLIR: a number taken apart and put together.

Which bits are in which part is said by `float_parts`.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects.float_parts import F16, F32, FloatParts
from llmc.dialects.index_notation import constant, letters, pointwise, widened
from llmc.dialects.mismatch import require

_FLOATS = {"f16": F16, "f32": F32}
_INTEGERS = {f"i{parts.width}": parts for parts in _FLOATS.values()}


def parts_of_floats(name: str, value: ir.Value) -> FloatParts:
    """How the numbers that tensor `name` holds are taken apart; checks that they are."""
    return _known(name, value, _FLOATS)


def parts_of_integers(name: str, value: ir.Value) -> FloatParts:
    """Of which numbers tensor `name` holds a part; checks that it does."""
    return _known(name, value, _INTEGERS)


def split(number: ir.Value, part: str) -> ir.Value:
    """The high or the low bits of `number`, f16 or f32."""
    parts = _FLOATS[str(number.type)]
    whole = T.i(2 * parts.width)
    bits = arith.bitcast(whole, number)
    first, shift = (
        (parts.width, parts.shift) if part == "high" else (parts.top - parts.width + 1, 0)
    )
    first, rest = (arith.shrui(bits, constant(each, whole)) for each in (first, shift))
    return arith.trunci(T.i(parts.width), _choose(parts.rest, rest, first))


def join(high: ir.Value, low: ir.Value | None = None) -> ir.Value:
    """The number, in f32, that has these bits; a rough one where `low` is not given."""
    parts, f32 = _INTEGERS[str(high.type)], T.f32()
    if low is None:
        whole = T.i32()
        bits = arith.shli(arith.extsi(whole, high), constant(parts.place, whole))
        bits = arith.andi(bits, _constant(parts.kept, whole))
        return arith.bitcast(f32, arith.ori(bits, _constant(parts.unread, whole)))
    whole = T.i(2 * parts.width)
    bits = arith.shli(arith.extsi(whole, high), constant(parts.shift, whole))
    bits = _choose(parts.low, arith.extsi(whole, low), bits)
    return as_f32(arith.bitcast(f32 if parts is F32 else T.f16(), bits))


def as_f32(number: ir.Value) -> ir.Value:
    """A number, f16 or f32, in f32."""
    return widened(number, T.f32())


def left_out(x: ir.Value) -> ir.Value:
    """What the high bits leave out of floats `x [...]`, f32 `[...]`."""
    lead, f32 = letters(x.type.rank), T.f32()

    def rest(number: ir.Value, _: ir.Value) -> ir.Value:
        return arith.subf(as_f32(number), join(split(number, "high")))

    return pointwise(f"{lead}->{lead}", rest, x, element=f32)


def _known(name: str, value: ir.Value, known: dict[str, FloatParts]) -> FloatParts:
    element = str(value.type.element_type)
    require(element in known, f"must hold {' or '.join(known)}, but is {value.type}", name)
    return known[element]


def _choose(mask: int, these: ir.Value, others: ir.Value) -> ir.Value:
    """The bits of `mask` of `these`, and the others of `others`."""
    type_ = these.type
    everything = 2**type_.width - 1
    return arith.ori(
        arith.andi(these, _constant(mask, type_)),
        arith.andi(others, _constant(everything - mask, type_)),
    )


def _constant(bits: int, type_: ir.IntegerType) -> ir.Value:
    """These bits, of which the highest is the sign."""
    return constant(bits - (bits >> (type_.width - 1) << type_.width), type_)
