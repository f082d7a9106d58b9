"""`store-blocks-as-bytes`: turns tensors of blocks into tensors of their bytes."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import BlocksToBytesOp, BytesToBlocksOp
from llmc.dialects.attributes import i64
from llmc.dialects.block_bytes import bytes_type
from llmc.dialects.block_types import storage_format
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.reshapes import RESHAPES
from llmc.pipelines.walks import walk

_CASTS = {"llmc.blocks_to_bytes", "llmc.bytes_to_blocks"}
_SLICES = {"tensor.extract_slice", "tensor.insert_slice", "tensor.parallel_insert_slice"}
_PARTS = {*_SLICES, *RESHAPES}

# What hands tensors on, whatever these hold.
_CARRIERS = {
    "arith.select",
    "bufferization.alloc_tensor",
    "cf.br",
    "cf.cond_br",
    "cf.switch",
    "func.call",
    "func.call_indirect",
    "func.constant",
    "func.func",
    "func.return",
    "llmc.parameter",
    "ml_program.global",
    "ml_program.global_load",
    "ml_program.global_store",
    "scf.condition",
    "scf.execute_region",
    "scf.for",
    "scf.forall",
    "scf.if",
    "scf.index_switch",
    "scf.while",
    "scf.yield",
    "tensor.cast",
    "tensor.concat",
    "tensor.dim",
    "tensor.empty",
    *_SLICES,
}


@dataclass(frozen=True)
class StoreBlocksAsBytes(Pass):
    """Turns `tensor<1536x18x!llmc.q4_1>` into `tensor<1536x18x20xi8>` wherever it goes.

    That is through functions, calls, globals, parameters, loops, slices and reshapes. Any other
    operation on blocks keeps them, between casts `llmc.bytes_to_blocks` and `llmc.blocks_to_bytes`;
    after `lower-llmc` there is none of llmc's, and of llmc's types nothing is left.
    """

    name: ClassVar[str] = "store-blocks-as-bytes"

    def apply(self, module: ir.Module) -> None:
        """Rewrites what takes blocks, what gives them, and the casts that were there."""
        ops = list(walk(module.operation))
        for op in ops:
            if _carries(op):
                _widen(op)
            elif op.name not in _CASTS:
                _take_blocks(op)
        for op in ops:
            if _carries(op):
                _retype(op)
            elif op.name not in _CASTS:
                _give_bytes(op)
        for op in ops:
            if op.name in _CASTS:
                _drop(op)


def _carries(op: ir.Operation) -> bool:
    """Whether `op` can do with bytes what it does with blocks."""
    if op.name in RESHAPES:
        return len(op.attributes["reassociation"]) > 0
    if op.name == "tensor.cast":
        values = (*op.operands, *op.results)
        return all(isinstance(value.type, ir.RankedTensorType) for value in values)
    if op.name == "arith.select":  # of tensors whole, not of their elements
        return isinstance(op.operands[0].type, ir.IntegerType)
    return op.name in _CARRIERS


def _widen(op: ir.Operation) -> None:
    """Lets a slice or a reshape leave the bytes of a block together."""
    if op.name not in _PARTS:
        return
    format_ = storage_format(op.operands[0].type)
    if format_ is None:
        return
    if op.name in _SLICES:
        _append(op, "static_offsets", 0)
        _append(op, "static_sizes", format_.bytes)
        _append(op, "static_strides", 1)
        return
    groups = list(op.attributes["reassociation"])
    last = ir.ArrayAttr.get([i64(sum(len(group) for group in groups))])
    op.attributes["reassociation"] = ir.ArrayAttr.get([*groups, last])
    if op.name == "tensor.expand_shape":
        _append(op, "static_output_shape", format_.bytes)


def _append(op: ir.Operation, name: str, value: int) -> None:
    op.attributes[name] = ir.DenseI64ArrayAttr.get([*op.attributes[name], value])


def _take_blocks(op: ir.Operation) -> None:
    """Casts the operands of `op`, which will be bytes."""
    for number, operand in enumerate(op.operands):
        if storage_format(operand.type):
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = BytesToBlocksOp(operand, operand.type).out


def _give_bytes(op: ir.Operation) -> None:
    """Casts the results of `op` and the arguments of its regions for those that use them."""
    for result in op.results:
        _cast(result, ir.InsertionPoint.after(op))
    for region in op.regions:
        for block in region:
            for argument in block.arguments:
                _cast(argument, ir.InsertionPoint.at_block_begin(block))


def _cast(value: ir.Value, place: ir.InsertionPoint) -> None:
    if storage_format(value.type):
        with place, value.location:
            cast = BlocksToBytesOp(value, bytes_type(value.type))
        value.replace_all_uses_except(cast.out, cast.operation)


def _retype(op: ir.Operation) -> None:
    """Lets `op` carry bytes."""
    arguments = [value for region in op.regions for block in region for value in block.arguments]
    for value in (*op.results, *arguments):
        value.set_type(_stored(value.type))
    for name in ("function_type", "type"):
        if name in op.attributes:
            op.attributes[name] = ir.TypeAttr.get(_stored(op.attributes[name].value))
    if op.name == "ml_program.global" and "value" in op.attributes:
        type_ = op.attributes["value"].type
        if storage_format(type_):  # the value is elsewhere: there is no constant of blocks
            op.attributes["value"] = ir.Attribute.parse(f"#ml_program.extern : {_stored(type_)}")


def _drop(cast: ir.Operation) -> None:
    value, type_ = cast.operands[0], _stored(cast.results[0].type)
    if value.type != type_:  # in what is dynamic
        with ir.InsertionPoint(cast), cast.location:
            value = tensor.cast(type_, value)
    cast.results[0].replace_all_uses_with(value)
    cast.erase()


def _stored(type_: ir.Type) -> ir.Type:
    if isinstance(type_, ir.FunctionType):
        inputs, results = (
            [_stored(each) for each in part] for part in (type_.inputs, type_.results)
        )
        return ir.FunctionType.get(inputs, results)
    return bytes_type(type_) if storage_format(type_) else type_
