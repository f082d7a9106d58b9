"""What a GPU schedule tells IREE of a dispatch: tiles, and the pipeline that lowers it.

The attributes of IREE's `iree_codegen` and `iree_gpu` dialects are made here, but for those
of a kernel of our own, which `launch` makes.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu

from llmc.pipelines.kernels.launch import MARKER
from llmc.pipelines.schedules.gpu_loops import loops_of

Kind = Literal["vulkan", "cuda"]

LOAD_BITS = 128
"""What a thread reads best at once."""

_COMPILATION = "compilation_info"


def gpu_tiles(levels: Mapping[str, Sequence]) -> ir.Attribute:
    """The tiles of each level, a number for each loop; of a basis, also which loop each is of."""
    named = {name: _integers(level) for name, level in levels.items()}
    return iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(named))


def vector_distribute() -> ir.Attribute:
    """The pipeline that hands parts of vectors to threads."""
    return iree_gpu.PipelineAttr.get(iree_gpu.LoweringPipeline.VectorDistribute)


def set_schedule(
    op: ir.Operation,
    name: str,
    tiles: ir.Attribute,
    pipeline: ir.Attribute,
    threads: int,
    subgroup_size: int | None = None,
) -> None:
    """Lets IREE lower the dispatch of `op` so, with `threads` threads in a workgroup."""
    translation = iree_codegen.TranslationInfoAttr.get(
        pipeline,
        workgroup_size=[threads, 1, 1],
        subgroup_size=subgroup_size,
        configuration=ir.DictAttr.get({MARKER: ir.StringAttr.get(name)}),
    )
    op.attributes[_COMPILATION] = iree_codegen.CompilationInfoAttr.get(tiles, translation)


def set_lone_threads(generic: ir.Operation, name: str, threads: int, kind: Kind) -> None:
    """Lets `threads` threads in a workgroup each compute, by itself, elements of the result.

    They are neighbours along the last of the loops of `generic` that are not folded, which are its
    first.
    """
    columns = loops_of(generic).reduced.count(False)
    each = [1] * columns
    tiles = _plain_tiles([*each[1:], threads] if columns else [], each)
    set_schedule(generic, name, tiles, _distribute(kind), threads)


def _plain_tiles(*levels: Sequence[int]) -> ir.Attribute:
    """The tiles of workgroups and then of threads, a number for each loop."""
    text = ", ".join(str(list(level)) for level in levels)
    return ir.Attribute.parse(f"#iree_codegen.lowering_config<tile_sizes = [{text}]>")


def _distribute(kind: Kind) -> ir.Attribute:
    """The pipeline that gives every thread loops of its own."""
    if kind == "cuda":
        return iree_gpu.PipelineAttr.get(iree_gpu.LoweringPipeline.Distribute)
    return ir.Attribute.parse("#iree_gpu.spirv_pipeline<BaseDistribute>")


def _integers(level: Sequence) -> ir.Attribute:
    if all(isinstance(each, int) for each in level):
        i64 = ir.IntegerType.get_signless(64)
        return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, each) for each in level])
    return ir.ArrayAttr.get([_integers(each) for each in level])
