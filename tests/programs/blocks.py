"""The parts of a layer: norms, attention, multi-layer perceptrons, experts, quantised layers."""

from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import arith, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects import (
    AttentionOp,
    ExpertLinearOp,
    QuantizedLinearOp,
    QuantizeRowsOp,
    RMSNormOp,
    RotaryOp,
)
from llmc.dialects.attributes import f64, i64
from llmc.dialects.block_types import TYPES
from llmc.dialects.blocks import FORMATS
from llmc.dialects.index_notation import (
    collapse,
    constant,
    contract,
    expand,
    loop_index,
    pointwise,
    size,
    sizes,
    slice_of,
)
from tests.programs.idioms import FUNCTIONS, add, filled_like, linear, multiply, permuted, reshape
from tests.programs.scope import Scope
from tests.programs.step import Step


@dataclass(frozen=True)
class Linear:
    """How a linear layer is written down.

    `stored` says how its weight is: `rows` [N, K], `columns` [K, N], or `turned`, which is [K, N]
    with a transposition in the program.
    """

    bias: bool = False
    stored: str = "rows"

    def build(self, scope: Scope, x: ir.Value, outputs: int) -> ir.Value:
        """`x [..., K]` -> `[..., outputs]`."""
        inputs = x.type.shape[-1]
        shape = (outputs, inputs) if self.stored == "rows" else (inputs, outputs)
        weight = scope.parameter(*shape)
        if self.stored == "turned":
            weight = permuted(weight, [1, 0])
        bias = scope.parameter(outputs) if self.bias else None
        return linear(x, weight, bias=bias, transposed=self.stored == "columns")


@dataclass(frozen=True)
class Norm(Step):
    """Root mean square normalisation."""

    offset: float = 0.0
    weighted: bool = True

    def apply(self, scope: Scope) -> None:
        scope.hidden = self.build(scope, scope.hidden)

    def build(self, scope: Scope, x: ir.Value) -> ir.Value:
        weight = scope.parameter(x.type.shape[-1]) if self.weighted else None
        return RMSNormOp(x, f64(1e-5), f64(self.offset), x.type, weight=weight).out


@dataclass(frozen=True)
class Attention(Step):
    """Attention over the function's tokens with its linear layers, a norm before, a sum after.

    Where tables are for the first channels alone, these may be cut from the others to be rotated.
    """

    heads: int = 2
    groups: int = 1
    channels: int = 4
    linear: Linear = Linear()
    norm: Norm | None = Norm()
    head_norm: bool = False
    rotary: bool = True
    interleaved: bool = False
    cut: bool = False
    window: int = 0
    softcap: float = 0.0
    importers_reshape: bool = True
    residual: bool = True

    def apply(self, scope: Scope) -> None:
        x = scope.hidden if self.norm is None else self.norm.build(scope, scope.hidden)
        query, key, value = (
            self._heads(scope, self.linear.build(scope, x, heads * self.channels), heads)
            for heads in (self.heads, self.groups, self.groups)
        )
        if self.head_norm:
            query, key = (Norm().build(scope, value) for value in (query, key))
        if self.rotary and scope.tables and self.channels >= scope.tables[0].type.shape[2]:
            query, key = (self._turned(x, *scope.tables) for x in (query, key))
        mixed = AttentionOp(
            query, key, value, f64(0.5), i64(self.window), f64(self.softcap), query.type
        ).out
        rows = collapse(permuted(mixed, [0, 2, 1, 3]), [1, 1, 2])
        out = self.linear.build(scope, rows, scope.width)
        scope.hidden = add(scope.hidden, out) if self.residual else out

    def _heads(self, scope: Scope, x: ir.Value, heads: int) -> ir.Value:
        """`[B, T, heads * channels]` -> `[B, heads, T, channels]`."""
        batch, tokens, _ = sizes(x)
        if self.importers_reshape:
            split = reshape(x, [batch, tokens, None, self.channels], heads)
        else:
            split = expand(x, [[batch], [tokens], [heads, self.channels]])
        return permuted(split, [0, 2, 1, 3])

    def _turned(self, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
        """`x [B, heads, T, channels]` with its first channels rotated."""
        turned = cos.type.shape[2]
        if not self.cut or turned == self.channels:
            return self._rotary(x, cos, sin)
        parts = []
        for start, width in ((0, turned), (turned, self.channels - turned)):
            extents = [*sizes(x)[:3], width]
            parts.append(slice_of(x, [0, 0, 0, start], extents, extents))
        first, rest = parts
        return tensor.concat(x.type, 3, [self._rotary(first, cos, sin), rest])

    def _rotary(self, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
        return RotaryOp(x, cos, sin, i64(int(self.interleaved)), x.type).out


@dataclass(frozen=True)
class MLP(Step):
    """Two linear layers with a function between, or three with a gate."""

    width: int = 5
    gated: bool = True
    function: str = "silu"
    linear: Linear = Linear()
    norm: Norm | None = Norm()
    residual: bool = True

    def apply(self, scope: Scope) -> None:
        x = scope.hidden if self.norm is None else self.norm.build(scope, scope.hidden)
        y = FUNCTIONS[self.function](self.linear.build(scope, x, self.width))
        if self.gated:
            y = multiply(y, self.linear.build(scope, x, self.width))
        out = self.linear.build(scope, y, scope.width)
        scope.hidden = add(scope.hidden, out) if self.residual else out


@dataclass(frozen=True)
class Parallel(Step):
    """Attention and a multi-layer perceptron of the same numbers, which are added to both."""

    attention: Attention = Attention()
    mlp: MLP = MLP()

    def apply(self, scope: Scope) -> None:
        x, made = scope.hidden, []
        for step in (self.attention, self.mlp):
            scope.hidden = x
            replace(step, residual=False).apply(scope)
            made.append(scope.hidden)
        mixed, widened = made
        scope.hidden = add(add(widened, mixed), x)


@dataclass(frozen=True)
class Experts(Step):
    """A mixture of experts, of which each row goes through `top_k`."""

    experts: int = 3
    top_k: int = 2
    width: int = 5
    transposed: bool = False

    def apply(self, scope: Scope) -> None:
        x = scope.hidden
        batch, tokens, _ = sizes(x)
        rows = collapse(x, [2, 1])
        expert = self._choice(rows)
        y = self._layer(scope, rows, expert, self.width, self.top_k)
        y = self._layer(scope, FUNCTIONS["silu"](y), expert, scope.width, 1)
        split = expand(y, [[size(rows, 0), self.top_k], [scope.width]])
        ones = filled_like(rows, 0.5, self.top_k)
        mixed = contract("rkn,rk->rn", split, ones)
        scope.hidden = add(x, expand(mixed, [[batch, tokens], [scope.width]]))

    def _choice(self, rows: ir.Value) -> ir.Value:
        """`[R * top_k]`: numbers that are less than `experts`, by the first element of a row."""
        i64_ = T.i64()

        def choose(element: ir.Value, _: ir.Value) -> ir.Value:
            grown = arith.mulf(math.absf(element), constant(3.7, element.type))
            start = arith.index_cast(T.index(), arith.fptosi(i64_, grown))
            which = arith.addi(start, loop_index(1))
            count = constant(self.experts, T.index())
            return arith.index_cast(i64_, arith.remui(which, count))

        first = slice_of(rows, [0, 0], [size(rows, 0), 1], [size(rows, 0)])
        choice = pointwise("r->rk", choose, first, element=i64_, k=self.top_k)
        return collapse(choice, [2])

    def _layer(
        self, scope: Scope, x: ir.Value, expert: ir.Value, outputs: int, top_k: int
    ) -> ir.Value:
        inputs = x.type.shape[1]
        shape = (inputs, outputs) if self.transposed else (outputs, inputs)
        weight = scope.parameter(self.experts, *shape)
        type_ = ir.RankedTensorType.get([expert.type.shape[0], outputs], x.type.element_type)
        return ExpertLinearOp(x, expert, weight, i64(top_k), i64(int(self.transposed)), type_).out


@dataclass(frozen=True)
class Quantized(Step):
    """A square linear layer of blocks, its input as floats or quantised; a norm goes before."""

    format: str = "q8_0"
    rows: bool = False

    def apply(self, scope: Scope) -> None:
        values = FORMATS[self.format].values
        if scope.width % values:
            return
        x = Norm(weighted=False).build(scope, scope.hidden)
        element = TYPES[self.format].get()
        weight = scope.parameter(scope.width, scope.width // values, element=element)
        scales = None
        if self.rows:
            x = FUNCTIONS["tanh"](x)  # of which none is halfway between two integers
            i8 = T.i8()
            codes = ir.RankedTensorType.get(x.type.shape, i8)
            groups = scope.like_hidden(scope.width // values)
            x, scales = QuantizeRowsOp(x, i64(values), codes, groups).results
        y = QuantizedLinearOp(x, weight, scope.hidden.type, scales=scales).out
        scope.hidden = add(scope.hidden, y)
