"""`schedule-collectives`: a matmul of parts, and how ranks bring the parts together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func, linalg, shard

from llmc.dialects import LinearOp
from llmc.dialects.index_notation import slice_of
from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.annotations import coordinates_of, grid_of, layout_of
from llmc.pipelines.sharding.collectives import all_gather, mark_started, reduce_scatter, shift
from llmc.pipelines.sharding.split import Layout, whole
from llmc.pipelines.walks import find
from llmc.runtime.ranks.grid import Grid


@dataclass(frozen=True)
class ScheduleCollectives(Pass):
    """Rewrites functions of a single `llmc.linear` to what rank `rank` runs, in one of three ways.

    `x [..., K]` is split along K; the result along N, or not at all, for which it is gathered. The
    function takes and returns the rank's parts: of the weight those that it multiplies by.

    - `gather`: x is gathered, and multiplied by the rank's rows of the weight.
    - `ring`: the rank multiplies each piece of x while it hands it on, until all came by.
    - `scatter`: the rank's part of x is multiplied, and the sum over ranks scattered.
    """

    name: ClassVar[str] = "schedule-collectives"
    rank: int = 0
    variant: str = "gather"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, not {self.variant}")

    def apply(self, module: ir.Module) -> None:
        """Rewrites each function with a split x. PassError where it is not of the one matmul."""
        grid = grid_of(module)
        if grid is None:
            return
        coordinates = coordinates_of(module, grid, self.rank)
        for function in functions(module):
            if find(function.operation, "shard.shard"):
                matmul = _Matmul.of(function, grid, coordinates)
                with ir.InsertionPoint(function), function.location:
                    matmul.build(function.sym_name.value, self.variant)
                function.operation.erase()


@dataclass(frozen=True)
class _Matmul:
    """The matmul of a function, for the rank `here` of the `ranks` along the grid's `axis`."""

    op: LinearOp
    axis: int
    ranks: int
    here: int
    is_gathered: bool

    @classmethod
    def of(cls, function: func.FuncOp, grid: Grid, coordinates: tuple[int, ...]) -> "_Matmul":
        """Finds it. PassError where there is more, or something is split in another way."""
        ops = [op for op in function.entry_block if not isinstance(op, _ANNOTATIONS)]
        if len(ops) != 2 or not isinstance(ops[0], LinearOp) or ops[0].bias is not None:
            fail(function.operation, "expected a single 'llmc.linear' without a bias")
        op, returned = ops
        sources = [_unannotated(operand, grid)[0] for operand in (op.x, op.weight)]
        if sources != list(function.entry_block.arguments):
            fail(op.operation, "expected x and the weight to be the function's two arguments")
        *leading, split = _unannotated(op.x, grid)[1]
        (operand,) = returned.operands
        value, layout = _unannotated(operand, grid)
        if value != op.out or split is None or any(leading) or any(layout[:-1]):
            fail(op.operation, "expected x to be split along K, and the result along N at most")
        if layout[-1] is not None and layout[-1].axis != split.axis:
            fail(op.operation, "expected x and the result to be split along one axis of the grid")
        ranks = grid.axes[split.axis].size
        are_even = all(each.is_even for each in (split, layout[-1]) if each is not None)
        if any(extent % ranks for extent in op.weight.type.shape) or not are_even:
            fail(op.operation, f"expected K and N to be split evenly among {ranks} ranks")
        here = coordinates[split.axis]
        return cls(op, split.axis, ranks, here, layout[-1] is None)

    def build(self, name: str, variant: str) -> None:
        """Adds the function `name`, which returns the rank's part or, `is_gathered`, all of it."""
        schedule, dim = VARIANTS[variant]
        shape = list(self.op.weight.type.shape)
        shape[self._weight_dim(dim)] //= self.ranks
        weight = ir.RankedTensorType.get(shape, self.op.weight.type.element_type)
        x = list(self.op.x.type.shape)
        x[-1] //= self.ranks
        part = ir.RankedTensorType.get(x, self.op.x.type.element_type)
        out = list(self.op.out.type.shape)
        if not self.is_gathered:
            out[-1] //= self.ranks
        result = ir.RankedTensorType.get(out, self.op.out.type.element_type)
        function = func.FuncOp(name, ([part, weight], [result]))
        with ir.InsertionPoint(function.add_entry_block()):
            y = schedule(self, *function.arguments)
            if self.is_gathered:
                y = all_gather(y, y.type.rank - 1, self.ranks, self.axis)
            func.ReturnOp([y])

    def gather(self, x: ir.Value, weight: ir.Value) -> ir.Value:
        """One matmul, of all of x."""
        return self._product(all_gather(x, x.type.rank - 1, self.ranks, self.axis), weight)

    def ring(self, x: ir.Value, weight: ir.Value) -> ir.Value:
        """As many matmuls as there are ranks, of a piece each while the next one is on its way."""
        following = self._handed_on(x)
        y = self._product(x, self._inputs_of(weight, self.here))
        for step in range(1, self.ranks):
            x = following
            if step + 1 < self.ranks:
                following = self._handed_on(x)
            product = self._product(x, self._inputs_of(weight, (self.here - step) % self.ranks))
            y = linalg.add(y, product, outs=[y])
        return y

    def scatter(self, x: ir.Value, weight: ir.Value) -> ir.Value:
        """One matmul, whose result is a share of all."""
        y = self._product(x, weight)
        return reduce_scatter(y, y.type.rank - 1, self.ranks, self.axis)

    def _handed_on(self, x: ir.Value) -> ir.Value:
        """The next piece, which comes while x is multiplied."""
        following = shift(x, 1, self.axis)
        mark_started(following.owner)
        return following

    def _weight_dim(self, name: str) -> int:
        return ("kn" if self.op.transposed.value else "nk").index(name)

    def _inputs_of(self, weight: ir.Value, piece: int) -> ir.Value:
        """What of the weight the `piece` of x is multiplied by."""
        shape, offsets = list(weight.type.shape), [0, 0]
        dim = self._weight_dim("k")
        shape[dim] //= self.ranks
        offsets[dim] = piece * shape[dim]
        return slice_of(weight, offsets, shape, shape)

    def _product(self, x: ir.Value, weight: ir.Value) -> ir.Value:
        shape = [*x.type.shape[:-1], weight.type.shape[self._weight_dim("n")]]
        type_ = ir.RankedTensorType.get(shape, x.type.element_type)
        return LinearOp(x, weight, self.op.transposed, type_).out


VARIANTS: dict[str, tuple[Callable[[_Matmul, ir.Value, ir.Value], ir.Value], str]] = {
    "gather": (_Matmul.gather, "n"),
    "ring": (_Matmul.ring, "n"),
    "scatter": (_Matmul.scatter, "k"),
}
"""How x and the weight become this rank's part, and which dimension of the weight is split."""

_ANNOTATIONS = (shard.ShardOp, shard.ShardingOp)


def _unannotated(value: ir.Value, grid: Grid) -> tuple[ir.Value, Layout]:
    """The value itself, and the layout that it is used in."""
    layout = whole(value.type.rank)
    if isinstance(value.owner, ir.Block) or not isinstance(value.owner.opview, shard.ShardOp):
        return value, layout
    layout = layout_of(value.owner.opview, grid)
    while not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, shard.ShardOp):
        value = value.owner.opview.src
    return value, layout
