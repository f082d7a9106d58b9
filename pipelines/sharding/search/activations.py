"""How much memory the activations of a model take."""

from torch_mlir import ir

from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes import PropagateShapes
from llmc.pipelines.rewriting.layers import trunks
from llmc.runtime.engine import PREFILL_CHUNK


def activation_bytes(module: ir.Module, sequences: int, context: int) -> int:
    """The most bytes of tensors that a call of `module` on so many `sequences` holds at once.

    Those of one device are counted. A rank has no more: what it does not gather it has parts of.
    """
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=False), module.context)
    run((PropagateShapes(tokens=PREFILL_CHUNK, past=context, batch=sequences),), copy)
    peaks = (function.attributes.get("llmc.peak_bytes_bound") for function in trunks(copy))
    return max((peak.value for peak in peaks if isinstance(peak, ir.IntegerAttr)), default=0)
