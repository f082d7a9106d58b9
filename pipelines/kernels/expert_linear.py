"""The kernel of linear layers over experts, for the rows of several tokens.

Given as linalg that picks the matrix in its body, rows together take IREE seven times as long. Sums
are kept in registers, and panels of J outputs, `[K, J]`, read from end to end, a few panels at
once. Weights may be narrower than x; sums are not.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.divisor import divisor
from llmc.pipelines.kernels.kernel import Kernel, load_index, multiply_add
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.schedules.sum_apart import CHAIN

# Panels at once, so that what is read of x is used twice.
_PANELS = 2


def expert_matmul(weight: ir.RankedTensorType, top_k: int, tile: int) -> Kernel:
    """Operands `x [R/top_k, K]`, `order [R]`, `first [E + 1]`, `weight`, result `[R, N]`.

    `weight [E, N/J, K, J]`. Row r is row r / top_k of x times the matrix of its expert, which is e
    for the rows `order[first[e]]` to `order[first[e + 1] - 1]`. A workgroup computes all of them,
    `tile` together, with a few panels that thus come from memory once.
    """
    panels = divisor(weight.shape[1], _PANELS)

    def grid(_extents: list[ir.Value]) -> tuple[Size, Size]:
        return weight.shape[1] // panels, weight.shape[0]

    def build(
        group: ir.Value,
        expert: ir.Value,
        _extents: list[ir.Value],
        x: ir.Value,
        order: ir.Value,
        first: ir.Value,
        matrices: ir.Value,
        out: ir.Value,
    ) -> None:
        product, mine = _Product(x, matrices, out, top_k), _consecutive(group, panels)
        start = load_index(first, expert)
        end = load_index(first, arith.addi(expert, index(1)))
        last = arith.subi(end, index(1))

        def compute(at: ir.Value, count: int) -> None:
            # The last tile is filled up with the last row: it is computed and written again.
            places = [arith.minui(arith.addi(at, index(i)), last) for i in range(count)]
            product.compute([load_index(order, place) for place in places], expert, mine)

        left = arith.remui(arith.subi(end, start), index(tile))
        one_left = arith.cmpi(arith.CmpIPredicate.eq, left, index(1))
        alone = arith.select(one_left, last, end)
        for at in scf.for_(start, alone, index(tile)):
            compute(at, tile)
            scf.yield_([])
        for at in scf.for_(alone, end):
            compute(at, 1)
            scf.yield_([])

    return Kernel(f"expert_matmul_{top_k}_{tile}", grid, build)


@dataclass(frozen=True)
class _Product:
    """Buffers `x [R/top_k, K]`, `weight [E, N/J, K, J]` and `out [R, N]`."""

    x: ir.Value
    weight: ir.Value
    out: ir.Value
    top_k: int

    def compute(self, rows: list[ir.Value], expert: ir.Value, panels: list[ir.Value]) -> None:
        """Writes what `panels` of `expert` make of `rows`; partial sums stay in registers."""
        _, _, inputs, columns = self.weight.type.shape
        sources = [arith.divui(row, index(self.top_k)) for row in rows]
        type_ = ir.VectorType.get([columns], self.x.type.element_type)
        zeros = [splat(0.0, type_)] * len(rows) * len(panels)
        loop = scf.ForOp(index(0), index(inputs), index(CHAIN), zeros)
        with ir.InsertionPoint(loop.body):
            begin = loop.induction_variable
            end = arith.minui(arith.addi(begin, index(CHAIN)), index(inputs))
            partial = scf.ForOp(begin, end, index(1), zeros)
            with ir.InsertionPoint(partial.body):
                self._multiply_add(partial, sources, expert, panels)
            scf.yield_(list(map(arith.addf, loop.inner_iter_args, partial.results)))
        results = iter(loop.results)
        for row in rows:
            for panel in panels:
                column = arith.muli(panel, index(columns))
                vector.store(next(results), self.out, [row, column])

    def _multiply_add(
        self, loop: scf.ForOp, rows: list[ir.Value], expert: ir.Value, panels: list[ir.Value]
    ) -> None:
        """Adds to the sums of a loop over `k` their products of `rows` of x and `panels`."""
        k, sums = loop.induction_variable, iter(loop.inner_iter_args)
        type_ = loop.inner_iter_args[0].type
        read = [self._read(expert, panel, k, type_) for panel in panels]
        factors = [vector.broadcast(type_, memref.load(self.x, [row, k])) for row in rows]
        scf.yield_([multiply_add(f, w, next(sums)) for f in factors for w in read])

    def _read(
        self, expert: ir.Value, panel: ir.Value, k: ir.Value, type_: ir.VectorType
    ) -> ir.Value:
        element = self.weight.type.element_type
        stored = ir.VectorType.get(type_.shape, element)
        weights = vector.load(stored, self.weight, [expert, panel, k, index(0)])
        return weights if stored == type_ else arith.extf(type_, weights)


def _consecutive(group: ir.Value, count: int) -> list[ir.Value]:
    base = arith.muli(group, index(count))
    return [arith.addi(base, index(i)) for i in range(count)]
