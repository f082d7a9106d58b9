"""The verbs of schedules: each emits an operation of MLIR's transform dialect, or a few.

    with each(kernels(payload, "matmul")) as kernel:
        product, loops = tile(match(kernel, "mnk", reduced="k"), m=4, n=16)
        unroll(loops["n"], 2)

A verb acts on what a `Handle` holds: none, one or several operations of the payload, all alike. It
takes sizes by the letters of loops. A diagnostic names the line of the schedule that called it.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import transform
from torch_mlir.dialects.bufferization import LayoutMapOption
from torch_mlir.dialects.transform import bufferization, loop, structured, tensor, vector

from llmc.dialects.attributes import i64
from llmc.pipelines.schedules.handles import Handle, any_op, match, operations, verb
from llmc.pipelines.schedules.transform_ops.dialect import load
from llmc.pipelines.schedules.transform_ops.expand_affine import ExpandAffineOp
from llmc.pipelines.schedules.transform_ops.one_workgroup import OneWorkgroupOp
from llmc.pipelines.schedules.transform_ops.prefetch import SECOND_CACHE, PrefetchOp
from llmc.pipelines.schedules.transform_ops.prefetch_first import PrefetchFirstOp
from llmc.pipelines.schedules.transform_ops.read_by import ReadByOp
from llmc.pipelines.schedules.transform_ops.splat_reads import SplatReadsOp
from llmc.pipelines.schedules.transform_ops.sum_apart import SumApartOp
from llmc.pipelines.schedules.transform_ops.vectorize_late import VectorizeLateOp
from llmc.pipelines.schedules.transform_ops.whole_rounds import WholeRoundsOp
from llmc.pipelines.schedules.transform_ops.widen_operand import WidenOperandOp
from llmc.pipelines.schedules.transform_ops.workgroup_for_each_row import WorkgroupForEachRowOp

_LARGEST_SIZE = 2**63 - 1


@verb
def generalize(scope: Handle) -> None:
    """Makes linalg.generic operations of all linalg operations in `scope`."""
    named = structured.MatchOp(
        any_op(), scope.value, interface=structured.MatchInterfaceEnum.LinalgOp
    )
    structured.GeneralizeOp(named.results_)


@verb
def decompose(op: Handle) -> None:
    """Makes simpler linalg operations of a softmax and its like."""
    structured.DecomposeInterfaceOp(any_op(), op.value)


@verb
def fuse_elementwise(kernel: Handle) -> Handle:
    """Moves elementwise operations, and reshapes between, into the operations that use them."""
    fused = transform.ApplyRegisteredPassOp(any_op(), kernel.value, "linalg-fuse-elementwise-ops")
    return Handle(fused.result)


@verb
def widen(op: Handle, number: int, loops: str) -> Handle:
    """Takes the widening of an input, as from f16 to f32, out of linalg.generic operations.

    It becomes an operation of its own with `loops`, those of `op` that the input has.
    """
    load(op.value.context)
    return Handle(WidenOperandOp(op.value, i64(number), any_op()).wide, loops)


@verb
def read_by(op: Handle, number: int, loops: str) -> Handle:
    """The elementwise operations with these loops that an input of `op` is computed by."""
    load(op.value.context)
    return Handle(ReadByOp(op.value, i64(number), i64(len(loops)), any_op()).before, loops)


@verb
def tile(op: Handle, **sizes: int) -> tuple[Handle, dict[str, Handle]]:
    """Splits loops into tiles of `sizes`; the tile's operation, and the loops over tiles."""
    given = _by_letter(op, sizes, absent=0)
    tiled = structured.TileUsingForOp(_for_ops(sizes), op.value, sizes=given)
    return Handle(tiled.tiled_linalg_op, op.loops), _nest(op, sizes, tiled.loops)


@verb
def fuse(op: Handle, **sizes: int) -> tuple[Handle, dict[str, Handle]]:
    """As `tile`, and computes what the operation reads, tile by tile, in the same loops."""
    given = _by_letter(op, sizes, absent=0)
    tiled = structured.FuseOp(_for_ops(sizes), op.value, tile_sizes=given, apply_cleanup=True)
    return Handle(tiled.transformed, op.loops), _nest(op, sizes, tiled.loops)


@verb
def distribute(op: Handle, **sizes: int) -> Handle:
    """As `fuse`, each tile being a workgroup's: the operation in the grid of workgroups.

    The first loop is the grid's width, a second its height. What no tile reads a part of stays
    before the grid, and is computed by every workgroup.
    """
    given = _by_letter(op, sizes, absent=0)
    if not any(given):
        raise ValueError("a grid needs the size of a loop that is above 0")
    tiled = structured.FuseOp(
        [transform.OperationType.get("scf.forall")],
        op.value,
        tile_sizes=given,
        apply_cleanup=True,
        use_forall=True,
    )
    return Handle(tiled.transformed, op.loops)


@verb
def workgroups(op: Handle, **sizes: int) -> Handle:
    """As `distribute`, and fuses nothing yet: the grid, for `fuse_into`."""
    given = _by_letter(op, sizes, absent=0)
    return Handle(structured.TileUsingForallOp(op.value, tile_sizes=given).forall_op)


@verb
def one_workgroup(kernel: Handle) -> None:
    """Has one workgroup compute all that a function returns."""
    load(kernel.value.context)
    OneWorkgroupOp(kernel.value)


@verb
def workgroup_for_each_row(kernel: Handle) -> None:
    """Has a workgroup compute each row that a function returns, from that row of what it reads."""
    load(kernel.value.context)
    WorkgroupForEachRowOp(kernel.value)


@verb
def fuse_into(loop_: Handle, producer: Handle) -> Handle:
    """Computes what `producer` makes where a loop reads it, a slice at a time."""
    fused = structured.FuseIntoContainingOp(any_op(), any_op(), producer.value, loop_.value)
    return Handle(fused.fused_op, producer.loops)


@verb
def tile_reduction(op: Handle, **sizes: int) -> dict[str, Handle]:
    """Splits a reduction into as many partial ones as `sizes` say, side by side in a tile.

    They are filled with the neutral element before the loop that is returned, folded in it, and
    combined after it. Changes numerics: the order of a sum.
    """
    given = _by_letter(op, sizes, absent=0)
    tiled = structured.TileReductionUsingForOp(
        [any_op()],
        any_op(),
        any_op(),
        *_for_ops(sizes),
        op.value,
        reduction_dims=[op.loops.index(letter) for letter in sizes],
        tile_sizes=given,
    )
    return _nest(op, sizes, [tiled.for_op])


@verb
def interchange(op: Handle, loops: str) -> Handle:
    """Orders the loops of a linalg.generic operation as in `loops`, from the outermost in."""
    order = [op.loops.index(letter) for letter in loops]
    return Handle(structured.InterchangeOp(op.value, iterator_interchange=order).transformed, loops)


@verb
def partial_sums(op: Handle, **sizes: int) -> Handle:
    """Splits sums of floats into partial ones of `sizes`, which are added up; the partial one.

    Changes numerics: the order of a sum.
    """
    load(op.value.context)
    block, loops = tile(op, **sizes)
    SumApartOp(block.value)
    *_, innermost = loops.values()
    generalize(innermost)
    return match(innermost, op.loops, reduced="".join(sizes))


@verb
def pad(op: Handle, **multiples: int) -> Handle:
    """Fills the operands up with zeros so that loops run over `multiples`."""
    given = _by_letter(op, multiples, absent=0)
    padded = structured.PadTilingInterfaceOp(
        any_op(),
        any_op(),
        op.value,
        [],
        static_padding_sizes=given,
        pad_to_multiple_of=True,
    )
    return Handle(padded.padded, op.loops)


@verb
def peel(loop_: Handle) -> Handle:
    """Parts a loop from its last round where that is incomplete, or may be: a loop for that round.

    Where all rounds are complete, the handle returned holds nothing.
    """
    mode = transform.FailurePropagationMode.Suppress
    attempt = transform.SequenceOp(mode, [any_op()], loop_.value)
    with ir.InsertionPoint(attempt.body):
        peeled = loop.LoopPeelOp(any_op(), any_op(), attempt.bodyTarget)
        transform.YieldOp([peeled.remainder_loop])
    return Handle(attempt.results_[0])


@verb
def expand_affine(loop_: Handle) -> None:
    """Makes arithmetic of affine maps in a loop, so that what is tiled in it can be peeled too."""
    load(loop_.value.context)
    ExpandAffineOp(loop_.value)


@verb
def part(loop_: Handle) -> tuple[Handle, Handle]:
    """Parts a loop of a dynamic number of rounds: those that are complete, and what is left."""
    parted = loop.LoopPeelOp(any_op(), any_op(), loop_.value)
    load(loop_.value.context)
    WholeRoundsOp(parted.peeled_loop)
    return Handle(parted.peeled_loop), Handle(parted.remainder_loop)


@verb
def inserted(loop_: Handle, loops: str) -> Handle:
    """What computes the slice that each round of a loop inserts into its result."""
    end = operations(loop_, "scf.yield")
    insertion = transform.GetProducerOfOperand(any_op(), end.value, 0)
    result = transform.GetProducerOfOperand(any_op(), insertion.producer, 0)
    return Handle(result.producer, loops)


@verb
def unroll(loop_: Handle, times: int) -> None:
    """Writes `times` rounds of a loop one after the other, and a loop for what is left."""
    loop.LoopUnrollOp(loop_.value, factor=times)


@verb
def vectorize(op: Handle, **sizes: int) -> None:
    """Turns an operation whose loops run up to `sizes` times into one on vectors of `sizes`.

    Vectors are masked where a loop may run less often. Without sizes all loops must be static.
    """
    given = _by_letter(op, sizes) if sizes else None
    structured.VectorizeOp(op.value, given, vectorize_nd_extract=True)


@verb
def vectorize_late(op: Handle) -> None:
    """As `vectorize`, of an operation whose reductions run once; what is broadcast, is so late."""
    load(op.value.context)
    VectorizeLateOp(op.value)


@verb
def drop_unit_loops(scope: Handle) -> None:
    """Leaves out the loops of linalg operations in `scope` that run once."""
    _apply_patterns(scope, structured.ApplyFoldUnitExtentDimsViaSlicesPatternsOp)


@verb
def vectorize_all(kernel: Handle) -> Handle:
    """As `vectorize`, of all operations of a kernel that run a static number of times."""
    done = structured.VectorizeChildrenAndApplyPatternsOp(kernel.value)
    return Handle(done.transformed)


@verb
def vectorize_contraction(op: Handle, **sizes: int) -> None:
    """As `vectorize`, of a sum of products, into a vector.contract."""
    contraction = structured.SpecializeOp(any_op(), op.value, emit_category=True)
    vectorized = structured.VectorizeOp(contraction.transformed, _by_letter(op, sizes))
    vectorized.create_named_contraction = True


@verb
def lower_contractions(scope: Handle) -> None:
    """Makes vector.fma of vector.contract, by outer products."""
    strategy = vector.VectorContractLowering.OuterProduct
    _apply_patterns(
        scope,
        lambda: vector.ApplyLowerContractionPatternsOp(lowering_strategy=strategy),
        vector.ApplyLowerOuterProductPatternsOp,
    )


@verb
def lower_reductions(scope: Handle) -> None:
    """Makes vector.reduction, of one vector to a number, of vector.multi_reduction."""
    strategy = vector.VectorMultiReductionLowering.InnerReduction
    _apply_patterns(
        scope,
        lambda: vector.ApplyReorderMultiReductionPatternsOp(lowering_strategy=strategy),
        lambda: vector.ApplyMultiReductionFlatteningPatternsOp(lowering_strategy=strategy),
        lambda: vector.ApplyMultiReductionUnrollingPatternsOp(lowering_strategy=strategy),
    )


@verb
def add_rows(scope: Handle) -> None:
    """Makes additions of vectors of vector.multi_reduction, of the rows of a vector."""
    strategy = vector.VectorMultiReductionLowering.InnerParallel
    _apply_patterns(
        scope,
        lambda: vector.ApplyMultiReductionUnrollingPatternsOp(lowering_strategy=strategy),
    )


@verb
def simplify(scope: Handle) -> None:
    """Removes what is not used, computed twice or known, as tiling leaves it behind."""
    _apply_patterns(
        scope,
        transform.ApplyCanonicalizationPatternsOp,
        structured.ApplyTilingCanonicalizationPatternsOp,
        loop.ApplyForLoopCanonicalizationPatternsOp,
        tensor.ApplyMergeConsecutiveInsertExtractSlicePatternsOp,
        tensor.ApplyFoldTensorEmptyPatternsOp,
    )


@verb
def compute_once(scope: Handle) -> None:
    """Removes what is computed twice, as fusing leaves it where several operations read one."""
    transform.ApplyCommonSubexpressionEliminationOp(scope.value)


@verb
def read_in_place(scope: Handle) -> None:
    """Lets vectors be read from and written to whole tensors, where they were of a slice."""
    _apply_patterns(
        scope,
        vector.ApplyLowerMaskedTransfersPatternsOp,
        vector.ApplyTransferPermutationPatternsOp,
        tensor.ApplyFoldTensorSubsetOpsIntoVectorTransfersPatternsOp,
        transform.ApplyCanonicalizationPatternsOp,
    )


@verb
def splat_reads(scope: Handle) -> None:
    """Reads one by one, from where they lie, the elements that vectors in `scope` repeat."""
    load(scope.value.context)
    _apply_patterns(
        scope,
        tensor.ApplyFoldTensorSubsetOpsIntoVectorTransfersPatternsOp,
        transform.ApplyCanonicalizationPatternsOp,
    )
    SplatReadsOp(scope.value)


@verb
def prefetch(scope: Handle, dimension: int, ahead: int, cache: int = SECOND_CACHE) -> None:
    """Asks memory for what loops in `scope` read of arguments `ahead` further along `dimension`.

    The last dimension is -1. `cache` is where it is wanted.
    """
    expand_affine(scope)
    PrefetchOp(scope.value, i64(dimension), i64(ahead), i64(cache))


@verb
def prefetch_first(scope: Handle, dimension: int, count: int) -> None:
    """Asks memory for the first `count` along `dimension` that workgroups in `scope` read.

    The last dimension is -1.
    """
    expand_affine(scope)
    PrefetchFirstOp(scope.value, i64(dimension), i64(count))


@verb
def keep_in_registers(scope: Handle) -> None:
    """Carries from round to round of a loop, as vectors, what it reads and writes every time."""
    loops = operations(scope, "scf.for")
    loop.HoistLoopInvariantSubsetsOp(loops.value)
    transform.ApplyLoopInvariantCodeMotionOp(loops.value)


@verb
def hold_sums(kernel: Handle) -> None:
    """Lets what is vectorised read in place and keep its sums in registers, added up at the end."""
    simplify(kernel)
    read_in_place(kernel)
    keep_in_registers(kernel)
    simplify(kernel)
    lower_reductions(kernel)


@verb
def bufferize(payload: Handle) -> Handle:
    """Turns tensors into buffers, arguments and results of functions too."""
    done = bufferization.OneShotBufferizeOp(
        payload.value,
        bufferize_function_boundaries=True,
        function_boundary_type_conversion=LayoutMapOption.IdentityLayoutMap,
    )
    return Handle(done.transformed)


def _apply_patterns(scope: Handle, *patterns: Callable[[], object]) -> None:
    applied = transform.ApplyPatternsOp(scope.value, apply_cse=True)
    with ir.InsertionPoint(applied.patterns):
        for pattern in patterns:
            pattern()


def _by_letter(op: Handle, sizes: dict[str, int], absent: int | None = None) -> list[int]:
    """The sizes in the order of the operation's loops; ValueError for loops it does not have."""
    unknown = [letter for letter in sizes if letter not in op.loops]
    missing = [letter for letter in op.loops if letter not in sizes and absent is None]
    if unknown or missing or not op.loops:
        raise ValueError(
            f"sizes are given for the loops '{''.join(sizes)}', but the loops are '{op.loops}'"
        )
    for letter, size in sizes.items():
        if type(size) is not int or not 0 <= size <= _LARGEST_SIZE:
            raise ValueError(f"the size for loop '{letter}' must be a number from 0, not {size!r}")
    return [sizes.get(letter, absent or 0) for letter in op.loops]


def _nest(op: Handle, sizes: dict[str, int], loops: Sequence[ir.Value]) -> dict[str, Handle]:
    """The loops over tiles by their letters."""
    tiled = [letter for letter in op.loops if sizes.get(letter)]
    return {letter: Handle(value) for letter, value in zip(tiled, loops, strict=True)}


def _for_ops(sizes: dict[str, int]) -> list[ir.Type]:
    return [transform.OperationType.get("scf.for") for size in sizes.values() if size]
