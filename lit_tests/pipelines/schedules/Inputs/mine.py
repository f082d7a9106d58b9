"""Schedules that are no part of llmc, as `llmc-opt --schedule-file=mine.py:NAME` takes them."""

from dataclasses import dataclass

from torch_mlir.dialects import transform
from torch_mlir.dialects.transform import structured

from llmc.pipelines.schedules import matmul
from llmc.pipelines.schedules.handles import Handle, match, operations
from llmc.pipelines.schedules.verbs import (
    bufferize,
    generalize,
    pad,
    partial_sums,
    peel,
    simplify,
    tile,
    unroll,
    vectorize,
)


@dataclass(frozen=True)
class Sizes:
    """The options of `loops`."""

    rows: int = 4
    times: int = 1


def loops(payload: Handle, sizes: Sizes) -> None:
    """Loops over rows and over the sum, the latter unrolled; what is left over has its own loop."""
    generalize(payload)
    _, over = tile(match(payload, "mnk", reduced="k"), m=sizes.rows, k=1)
    unroll(over["k"], sizes.times)
    peel(over["m"])
    simplify(payload)


def padded(payload: Handle) -> None:
    """Operands filled up with zeros to whole tiles."""
    pad(operations(payload, "linalg.matmul", "mnk"), m=8)


def buffers(payload: Handle) -> None:
    """A schedule of ours, and then buffers instead of tensors."""
    matmul.matmul(payload, matmul.MatmulParameters(rows=2, columns=8))
    bufferize(payload)


def annotated(payload: Handle) -> None:
    """Operations of the transform dialect itself, to the end of the script."""
    kind = transform.AnyOpType.get()
    products = structured.structured_match(kind, payload.value, ops=["linalg.matmul"])
    transform.AnnotateOp(products, "mine")
    transform.YieldOp()


def too_small(payload: Handle) -> None:
    """Vectors that do not cover the operation."""
    vectorize(operations(payload, "linalg.matmul", "mnk"), m=1, n=1, k=1)


def in_fours(payload: Handle) -> None:
    """Sums of four terms, which are added up."""
    generalize(payload)
    partial_sums(match(payload, "mn", reduced="n"), n=4)
