"""Small steps, to stand between the parts of a layer, before them and after."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import collapse, contract, expand, pointwise, sizes, slice_of
from tests.programs.blocks import Linear, Norm
from tests.programs.idioms import FUNCTIONS, add, last_token, multiply, permuted, reshape
from tests.programs.scope import Scope, f32
from tests.programs.step import Step


@dataclass(frozen=True)
class Pointwise(Step):
    """A function of each element."""

    function: str = "silu"

    def apply(self, scope: Scope) -> None:
        scope.hidden = FUNCTIONS[self.function](scope.hidden)


@dataclass(frozen=True)
class Project(Step):
    """A square linear layer."""

    linear: Linear = field(default_factory=Linear)

    def apply(self, scope: Scope) -> None:
        scope.hidden = self.linear.build(scope, scope.hidden, scope.width)


@dataclass(frozen=True)
class Fork(Step):
    """Two square linear layers of the same state; the sum or the product of both."""

    product: bool = False
    linear: Linear = field(default_factory=Linear)

    def apply(self, scope: Scope) -> None:
        x, combine = scope.hidden, multiply if self.product else add
        scope.hidden = combine(*(self.linear.build(scope, x, scope.width) for _ in range(2)))


@dataclass(frozen=True)
class Save(Step):
    """Keeps the hidden state for later."""

    def apply(self, scope: Scope) -> None:
        scope.saved.append(scope.hidden)


@dataclass(frozen=True)
class AddSaved(Step):
    """Adds what was kept, if anything was; `whole`: as arith on tensors, not as a generic."""

    which: int = 0
    whole: bool = False

    def apply(self, scope: Scope) -> None:
        if scope.saved:
            saved = scope.saved[self.which % len(scope.saved)]
            scope.hidden = (arith.addf if self.whole else add)(scope.hidden, saved)


@dataclass(frozen=True)
class Unused(Step):
    """A weight, and what is computed of it, that nothing needs."""

    def apply(self, scope: Scope) -> None:
        permuted(scope.parameter(3, 2), [1, 0])


@dataclass(frozen=True)
class Twice(Step):
    """The same step twice from the same state with the same weights; the sum of both."""

    step: Step

    def apply(self, scope: Scope) -> None:
        before, parameters = scope.hidden, scope.parameters
        self.step.apply(scope)
        first, scope.hidden, scope.parameters = scope.hidden, before, parameters
        self.step.apply(scope)
        scope.hidden = add(first, scope.hidden)


@dataclass(frozen=True)
class ByPosition(Step):
    """Scales each token by a function of its position, which is the same in all layers."""

    table: bool = False

    def apply(self, scope: Scope) -> None:
        if scope.positions is None:
            return
        f32_ = T.f32()
        position = pointwise(
            "bt->bt", lambda p, _: arith.sitofp(f32_, p), scope.positions, element=f32_
        )
        factor = FUNCTIONS["sigmoid"](position)
        if self.table:
            values = ir.DenseElementsAttr.get(
                [ir.FloatAttr.get(f32_, 1 + number / 4) for number in range(scope.width)],
                type=f32(scope.width),
            )
            scale = FUNCTIONS["silu"](arith.constant(f32(scope.width), values))
            scope.hidden = pointwise(
                "btn,n->btn", lambda x, s, _: arith.mulf(x, s), scope.hidden, scale
            )
        scope.hidden = pointwise(
            "btn,bt->btn", lambda x, f, _: arith.mulf(x, f), scope.hidden, factor
        )


@dataclass(frozen=True)
class Halves(Step):
    """Swaps the halves of the last dimension, or turns them over: slices and a concatenation."""

    parts: int = 2

    def apply(self, scope: Scope) -> None:
        batch, tokens, width = sizes(scope.hidden)
        part = width // self.parts
        slices = [
            slice_of(scope.hidden, [0, 0, at * part], *[[batch, tokens, part]] * 2)
            for at in reversed(range(self.parts))
        ]
        joined = tensor.concat(scope.hidden.type, 2, slices)
        scope.hidden = add(scope.hidden, joined)


@dataclass(frozen=True)
class Reshapes(Step):
    """Takes the last dimension apart and together again, as the importer writes it or not."""

    importers: bool = True
    transpose: bool = False

    def apply(self, scope: Scope) -> None:
        x = scope.hidden
        batch, tokens, width = sizes(x)
        if self.importers:
            split = reshape(x, [batch, tokens, None, 2], width // 2)
        else:
            split = expand(x, [[batch], [tokens], [width // 2, 2]])
        if self.transpose:
            split = permuted(permuted(split, [0, 1, 3, 2]), [0, 1, 3, 2])
        split = FUNCTIONS["silu"](split)
        if self.importers:
            scope.hidden = reshape(split, [batch, tokens, None], width)
        else:
            scope.hidden = collapse(split, [1, 1, 2])


@dataclass(frozen=True)
class Flatten(Step):
    """Makes one dimension of tokens and channels, and two of it again, as the importer does."""

    def apply(self, scope: Scope) -> None:
        batch, tokens, width = sizes(scope.hidden)
        is_open = not isinstance(tokens, int)
        flat = reshape(scope.hidden, [batch, None], -1 if is_open else tokens * width)
        flat = FUNCTIONS["silu"](flat)
        scope.hidden = reshape(flat, [batch, None, width], -1 if is_open else tokens)


@dataclass(frozen=True)
class MixTokens(Step):
    """Scores of all tokens with each other, and their weighted sum, written in linalg."""

    local: ClassVar[bool] = False

    def apply(self, scope: Scope) -> None:
        x = scope.hidden
        scores = FUNCTIONS["tanh"](contract("btn,bsn->bts", x, x))
        scope.hidden = contract("bts,bsn->btn", scores, x)


@dataclass(frozen=True)
class LastToken(Step):
    """Adds the last token's row, at a place that is computed as the importer does it, to all."""

    after: str = "norm"

    local: ClassVar[bool] = False

    def apply(self, scope: Scope) -> None:
        x = scope.hidden
        if self.after == "norm":
            x = Norm().build(scope, x)
        if self.after == "linear":
            x = Linear().build(scope, x, scope.width)
        last = last_token(x)
        row = collapse(last, [2, 1]) if last.type.shape[0] == 1 else None
        if row is not None:
            row = collapse(row, [2])
            scope.hidden = pointwise(
                "btn,n->btn", lambda a, b, _: arith.addf(a, b), scope.hidden, row
            )
