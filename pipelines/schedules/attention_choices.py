"""Parameters of the schedules of attention for what the cache holds."""

from dataclasses import replace

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.block_types import cell_format
from llmc.dialects.kv_cache import channels
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.attention_cuts import DECODE_ATTENTION, LARGEST_COUNT, PROMPT_ATTENTION
from llmc.pipelines.schedules.attention import AttentionParameters, attention
from llmc.pipelines.schedules.byte_attention import ByteAttentionParameters, byte_attention
from llmc.pipelines.schedules.decode_attention import DecodeAttentionParameters, decode_attention
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.walks import find

_WIDE_HEAD = 128
"""Channels of a head, from which on few rows are all that the stack bears."""

_ROWS_AT_ONCE = {16: (8, 6)}
_ROWS_OF_SHORTER = 3, 4
"""By the floats of a register, how many rows are multiplied at once: of narrow heads, of wide ones.

The more they are, the less often keys and values are unpacked, until sums go to the stack.
"""

_HEADS_OF_CELLS = 8
"""Heads at once: what is unpacked of cells counts for more than sums that stay in registers.

Of floats nothing is unpacked.
"""

_BLOCKS_OF_CELLS = 8
"""Blocks of cells that are not cut up: each part would look at the same ones before its own."""


def choose_attention(_kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """Two vectors of rows, whose 16 sums with eight columns need more than 16 registers."""
    vectors = 2 if target.registers == 32 else 1
    return PythonSchedule(attention, AttentionParameters(vectors))


def choose_byte_attention(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """By the width of heads."""
    op = _operation(kernel, PROMPT_ATTENTION)
    narrow, wide = _ROWS_AT_ONCE.get(target.columns, _ROWS_OF_SHORTER)
    together = wide if channels(op.keys) >= _WIDE_HEAD else narrow
    return PythonSchedule(byte_attention, ByteAttentionParameters(together=together))


def choose_decode_attention(kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule:
    """By what the cache holds; of a CPU with no known number of cores all heads are cut up."""
    op = _operation(kernel, DECODE_ATTENTION)
    cores = min(target.cores, LARGEST_COUNT) if target.cpu == "host" else LARGEST_COUNT
    parameters = DecodeAttentionParameters(cores=cores)
    if cell_format(op.keys.type):
        parameters = replace(parameters, whole=_BLOCKS_OF_CELLS, together=_HEADS_OF_CELLS)
    return PythonSchedule(decode_attention, parameters)


def _operation(kernel: func.FuncOp, names: tuple[str, ...]) -> ir.OpView:
    """The one of these names that the kernel is. PassError where there is not one."""
    found = find(kernel.operation, *names)
    if len(found) != 1:
        fail(kernel, f"a kernel of attention has one operation {' or '.join(names)}")
    return found[0].opview
