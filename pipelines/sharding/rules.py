"""The sharding rules of MLIR's own operations, and what a rule makes of given layouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import linalg, ml_program, tensor

from llmc.dialects.index_notation import letters
from llmc.dialects.sharding_rule import Dim, Dims, ShardingRule
from llmc.pipelines.recipes.pack import is_zero
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.generics import integer_constant
from llmc.pipelines.sharding.split import Dealt, Layout, Split

Splits = Mapping[str, Split]
"""How the letters of a rule are split."""

_FREE = ("tensor.empty", "arith.constant")


def rule_of(op: ir.Operation) -> ShardingRule | None:
    """How `op` may be split; None where that is unknown."""
    view = op.opview
    if any(isinstance(value.type, ir.UnrankedTensorType) for value in (*op.operands, *op.results)):
        return None
    if hasattr(view, "sharding") and op.name.startswith("llmc."):
        return view.sharding()
    if isinstance(view, linalg.GenericOp):
        return _rule_of_generic(view)
    if isinstance(view, linalg.TransposeOp):
        dims = _named(len(view.permutation))
        turned = tuple(dims[dim] for dim in view.permutation)
        return ShardingRule((dims, turned), (turned,))
    if isinstance(view, tensor.ExpandShapeOp):
        fine, coarse = _rule_of_reshape(view.reassociation, view.static_output_shape)
        return _unary(op, coarse, fine)
    if isinstance(view, tensor.CollapseShapeOp):
        fine, coarse = _rule_of_reshape(view.reassociation, view.src.type.shape)
        return _unary(op, fine, coarse)
    if isinstance(view, tensor.CastOp):
        dims = _named(view.source.type.rank)
        return _unary(op, dims, dims)
    if isinstance(view, tensor.DimOp):
        return _unary(op, _dims_beside(view), ())
    if isinstance(view, tensor.ExtractSliceOp):
        return _rule_of_slice(view)
    if isinstance(view, ml_program.GlobalStoreOp):  # of which each rank has a part of its own
        return ShardingRule((_named(view.value.type.rank),), ())
    if isinstance(view, tensor.ConcatOp):
        dims = _named(view.result.type.rank)
        joined = tuple(None if dim == view.dim.value else each for dim, each in enumerate(dims))
        return ShardingRule((joined,) * len(op.operands), (joined,))
    return None


def is_free(op: ir.Operation) -> bool:
    """Whether any rank can have any part of what `op` makes at no cost."""
    if op.name in _FREE:
        return True
    if op.name == "linalg.fill":
        output = op.operands[1].owner
        return not isinstance(output, ir.Block) and is_free(output)
    return len(op.results) == 1 and recipe_of(op.results[0]) is not None


def _named(rank: int) -> Dims:
    """Dimensions that have nothing to do with one another."""
    return tuple(Dim(name) for name in letters(rank))


def _unary(op: ir.Operation, source: Dims, result: Dims) -> ShardingRule:
    """The rule of an operation on one tensor, whose other operands are scalars."""
    return ShardingRule((source, *((),) * (len(op.operands) - 1)), (result,))


def _rule_of_generic(op: linalg.GenericOp) -> ShardingRule:
    maps = [ir.AffineMapAttr(attribute).value for attribute in op.indexing_maps]
    names = letters(maps[0].n_dims)
    is_indexed = any(inner.operation.name == "linalg.index" for inner in op.regions[0].blocks[0])
    reduced = [
        name
        for name, kind in zip(names, op.iterator_types, strict=True)
        if "reduction" in str(kind)
    ]
    sums = "".join(reduced) if _adds(op) else ""
    fixed = set(names) if is_indexed else set(reduced) - set(sums)
    dims = [tuple(_dim_of(result, names, fixed) for result in map_.results) for map_ in maps]
    return ShardingRule(tuple(dims), tuple(dims[len(op.inputs) :]), sums)


def _dims_beside(op: tensor.DimOp) -> tuple[Dim | None, ...]:
    """All dimensions but the one that is asked for, of which a rank would know its part alone."""
    asked = integer_constant(op.index)
    dims = _named(op.source.type.rank)
    return tuple(None if asked in (None, at) else dim for at, dim in enumerate(dims))


def _dim_of(result: ir.AffineExpr, names: str, fixed: set[str]) -> Dim | None:
    if not isinstance(result, ir.AffineDimExpr) or names[result.position] in fixed:
        return None
    return Dim(names[result.position])


def _adds(op: linalg.GenericOp) -> bool:
    """Whether every result is a sum of f32, over what is reduced, that begins at zero.

    Such sums ranks can add up.
    """
    body = op.regions[0].blocks[0]
    outputs = list(body.arguments)[len(op.inputs) :]
    yielded = body.operations[len(body.operations) - 1].operands
    return all(map(_is_filled_with_zeros, op.outputs)) and all(
        not isinstance(value.owner, ir.Block)
        and value.owner.name == "arith.addf"
        and isinstance(value.type, ir.F32Type)
        and output in list(value.owner.operands)
        for output, value in zip(outputs, yielded, strict=True)
    )


def _is_filled_with_zeros(value: ir.Value) -> bool:
    """Whether all of `value`, in whatever layout, is 0: else each rank would add what it is."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    if op.name == "shard.shard":
        return _is_filled_with_zeros(op.operands[0])
    return op.name == "linalg.fill" and is_zero(op.operands[0])


def _rule_of_reshape(reassociation: ir.ArrayAttr, shape: Sequence[int]) -> tuple[Dims, Dims]:
    """The dimensions of the finer and of the coarser shape; a group is cut in its outermost one."""
    fine: list[Dim | None] = []
    coarse: list[Dim | None] = []
    for name, group in zip(letters(len(reassociation)), reassociation, strict=True):
        dims = [ir.IntegerAttr(dim).value for dim in group]
        extents = [shape[dim] for dim in dims]
        cut = next((n for n, extent in enumerate(extents) if extent != 1), 0)
        inner = extents[cut + 1 :]
        is_known = all(extent >= 0 for extent in inner)
        fine += [Dim(name) if is_known and n == cut else None for n in range(len(dims))]
        coarse.append(Dim(name, Fraction(prod(inner))) if is_known else None)
    return tuple(fine), tuple(coarse)


def _rule_of_slice(op: tensor.ExtractSliceOp) -> ShardingRule | None:
    """A dimension may be cut that is taken whole."""
    source, result = op.source.type, op.result.type
    if source.rank != result.rank:
        return None
    dims = tuple(
        Dim(name) if 0 <= size == extent else None
        for name, size, extent in zip(
            letters(source.rank), op.static_sizes, source.shape, strict=True
        )
    )
    return _unary(op.operation, dims, dims)


@dataclass(frozen=True)
class Assignment:
    """How the letters of a rule are split for an operation, and what follows from it."""

    rule: ShardingRule
    splits: Splits

    @property
    def operands(self) -> list[Layout]:
        """The layouts that the operation needs its operands in."""
        return [self._layout(dims) for dims in self.rule.operands]

    @property
    def results(self) -> list[Layout]:
        """The layouts of the results, once they are added up along `sum_axes`."""
        return [self._layout(dims) for dims in self.rule.results]

    @property
    def sum_axes(self) -> list[int]:
        """The axes of the grid along which the results are still to be added up."""
        return sorted({self.splits[each].axis for each in self.rule.sums if each in self.splits})

    def _layout(self, dims: Dims) -> Layout:
        return tuple(
            self.splits[dim.letter].times(dim.ratio) if dim and dim.letter in self.splits else None
            for dim in dims
        )


def assign(rule: ShardingRule, layouts: Sequence[Layout | None]) -> Assignment:
    """How an operation is split whose operands have `layouts`, None for one that can have any.

    Where two operands would have it split in different ways, the first one has its way, and an axis
    of the grid cuts one letter alone.
    """
    splits: dict[str, Split] = {}
    for dims, layout in zip(rule.operands, layouts, strict=True):
        for dim, split in zip(dims, layout or (), strict=False):
            if dim is None or split is None or dim.letter in splits:
                continue
            wanted = split.times(1 / dim.ratio)
            if _is_possible(rule, dim, split, wanted, splits):
                splits[dim.letter] = wanted
    return Assignment(rule, splits)


def _is_possible(rule: ShardingRule, dim: Dim, split: Split, wanted: Split, others: Splits) -> bool:
    """Whether `wanted` for the letter of `dim` gives `split`, divides all, and has a free axis."""
    if wanted.times(dim.ratio) != split or wanted.axis in {each.axis for each in others.values()}:
        return False
    if dim.letter in rule.sums and not wanted.is_disjoint:
        return False
    if dim.letter in rule.averages and not isinstance(split, Dealt):
        return False
    dims = [each for tensor_ in (*rule.operands, *rule.results) for each in tensor_ if each]
    ratios = {each.ratio for each in dims if each.letter == dim.letter}
    if isinstance(split, Dealt) and ratios != {1}:
        return False
    is_divisible = all(
        (ratio < 1 and dim.letter in rule.groups) or _is_exact(wanted, ratio) for ratio in ratios
    )
    is_in_units = _is_exact(wanted, Fraction(1, rule.units.get(dim.letter, 1)))
    return is_divisible and is_in_units and wanted.keeps_whole(rule.groups.get(dim.letter, 1))


def _is_exact(split: Split, ratio: Fraction) -> bool:
    return all(edge * ratio.numerator % ratio.denominator == 0 for r in split.ranges for edge in r)
