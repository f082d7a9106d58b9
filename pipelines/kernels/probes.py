"""Kernels that reach a bound of the machine: how fast it reads, multiplies and adds.

Every workgroup does the same amount of work, in registers but for what it reads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.intrinsics import intrinsic
from llmc.pipelines.kernels.kernel import Kernel, multiply_add
from llmc.pipelines.kernels.pair_instructions import INSTRUCTIONS
from llmc.pipelines.kernels.splat import splat

# Sums that are added to in turns, so that no instruction waits for the one before.
SUMS = 16
# Places that a workgroup reads on from in turns: memory gives a core more than for one alone.
STREAMS = 8
# Bytes ahead that memory is asked for.
_AHEAD = 1024
# Rounds of a workgroup that computes.
ROUNDS = 20_000

Step = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class ProbeInstructions:
    """Instructions that add products of bytes to 32-bit sums: `sums += a * b`, 4 to a sum.

    `direct` names one that does all of it, where the CPU has it; otherwise `pairs` makes 16-bit
    sums of two products, and `widen` 32-bit ones of two of these. AMX and SMMLA are left out, which
    multiply whole matrices.
    """

    direct: str = ""
    pairs: str = ""
    widen: str = ""


def probe_instructions(features: tuple[str, ...]) -> ProbeInstructions | None:
    """The best that a CPU with LLVM's `features` has as vector instructions; None for none."""
    if "avx512vnni" in features:
        return ProbeInstructions(direct="llvm.x86.avx512.vpdpbusd.512")
    if "avxvnni" in features:
        return ProbeInstructions(direct="llvm.x86.avx512.vpdpbusd.256")
    if "avx512bw" in features:
        return ProbeInstructions(
            pairs="llvm.x86.avx512.pmaddubs.w.512", widen="llvm.x86.avx512.pmaddw.d.512"
        )
    if "avx2" in features:
        return ProbeInstructions(pairs="llvm.x86.avx2.pmadd.ub.sw", widen="llvm.x86.avx2.pmadd.wd")
    if "dotprod" in features:
        return ProbeInstructions(direct="llvm.aarch64.neon.sdot.v4i32.v16i8")
    return None


def read(groups: int) -> Kernel:
    """Operand `x [groups, STREAMS, steps, lanes * SUMS / STREAMS]` f32, result `[groups, lanes]`.

    These are the sums.
    """

    def build(group: ir.Value, _y: ir.Value, _: list[ir.Value], x: ir.Value, out: ir.Value) -> None:
        lanes = out.type.shape[1]
        type_ = ir.VectorType.get([lanes], T.f32())
        start = [splat(0.0, type_)] * SUMS
        _, streams, steps, width = x.type.shape
        loop = scf.ForOp(index(0), index(steps), index(1), start)
        with ir.InsertionPoint(loop.body):
            step = loop.induction_variable
            later = arith.addi(step, index(_AHEAD // (4 * width)))
            loads = []
            for stream, at in product(map(index, range(streams)), range(0, width, lanes)):
                memref.prefetch(x, [group, stream, later, index(at)], False, 2, True)
                loads.append(vector.load(type_, x, [group, stream, step, index(at)]))
            scf.YieldOp(list(map(arith.addf, loads, loop.inner_iter_args)))
        _store_total(list(loop.results), arith.addf, out, group)

    return Kernel("probe_read", lambda _: (groups, 1), build)


def multiply_floats(groups: int) -> Kernel:
    """Operand `x [2, lanes]` f32, result `[groups, lanes]`: `ROUNDS * SUMS` fused multiply-adds."""

    def step(sum_: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return multiply_add(a, b, sum_)

    return Kernel("probe_floats", lambda _: (groups, 1), _repeat(step, arith.addf, 0.0))


def multiply_bytes(groups: int, instructions: ProbeInstructions) -> Kernel:
    """Operand `x [2, 4 * lanes]` i8, result `[groups, lanes]` i32: `ROUNDS * SUMS` additions."""

    def step(sum_: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        if instructions.direct:
            return intrinsic(instructions.direct, sum_.type, sum_, a, b)
        lanes = sum_.type.shape[0]
        halves = ir.VectorType.get([2 * lanes], T.i16())
        # Of the sum, too: or the products, which are always the same, were computed once.
        b = arith.xori(b, vector.bitcast(b.type, sum_))
        pairs = intrinsic(instructions.pairs, halves, a, b)
        ones = splat(1, halves)
        return arith.addi(sum_, intrinsic(instructions.widen, sum_.type, pairs, ones))

    return Kernel("probe_bytes", lambda _: (groups, 1), _repeat(step, arith.addi, 0))


def multiply_pairs(groups: int, instruction: str) -> Kernel:
    """Operand `x [2, 2 * lanes]`, the bits of bf16 as i16, result `[groups, lanes]` f32.

    There are `ROUNDS * SUMS` additions.
    """

    def step(sum_: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        bf16 = ir.VectorType.get(a.type.shape, T.bf16())
        return INSTRUCTIONS[instruction](sum_, *(vector.bitcast(bf16, bits) for bits in (a, b)))

    return Kernel("probe_pairs", lambda _: (groups, 1), _repeat(step, arith.addf, 0.0))


def _repeat(
    step: Step, add: Callable[[ir.Value, ir.Value], ir.Value], zero: float | int
) -> Callable[..., None]:
    def build(group: ir.Value, _y: ir.Value, _: list[ir.Value], x: ir.Value, out: ir.Value) -> None:
        lanes, width = out.type.shape[1], x.type.shape[1]
        operand = ir.VectorType.get([width], x.type.element_type)
        a, b = (vector.load(operand, x, [index(row), index(0)]) for row in range(2))
        start = [splat(zero, ir.VectorType.get([lanes], out.type.element_type))] * SUMS
        loop = scf.ForOp(index(0), index(ROUNDS), index(1), start)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp([step(sum_, a, b) for sum_ in loop.inner_iter_args])
        _store_total(list(loop.results), add, out, group)

    return build


def _store_total(
    sums: list[ir.Value],
    add: Callable[[ir.Value, ir.Value], ir.Value],
    out: ir.Value,
    group: ir.Value,
) -> None:
    vector.store(reduce(add, sums), out, [group, index(0)])
