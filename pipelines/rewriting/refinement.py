"""Carries static sizes through functions: from arguments to results, from callers to callees."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import func, tensor
from torch_mlir.passmanager import PassManager

from llmc.dialects.dimensions import dimensions
from llmc.pipelines.errors import fail
from llmc.pipelines.rewriting.functions import callee, set_type
from llmc.pipelines.rewriting.reshapes import simplify_reshape
from llmc.pipelines.walks import find, walk


class Refinement:
    """Refines the types in `functions`, by name, which nothing else calls.

    A refined value is cast back to its old type for those that use it. Canonicalisation moves such
    casts past MLIR's own operations, and we move them past llmc's, calls and returns.
    """

    def __init__(self, functions: Mapping[str, func.FuncOp]) -> None:
        self._functions = functions
        self._old_inputs = {name: list(each.type.inputs) for name, each in functions.items()}

    def set_arguments(self, function: func.FuncOp, types: list[ir.Type]) -> bool:
        """Gives the arguments of `function` `types`, which refine theirs; whether any is new."""
        begin = ir.InsertionPoint.at_block_begin(function.entry_block)
        changed = _retype(list(function.arguments), types, begin)
        set_type(function, function.type.results)
        return changed

    def run(self) -> None:
        """Refines until nothing changes. PassError where a call may pass other sizes."""
        simplify = PassManager.parse("func.func(canonicalize,cse)")
        changed = True
        while changed:
            changed = False
            for function in self._functions.values():
                simplify.run(function.operation)
                for op in find(function.operation, "tensor.reshape"):
                    changed |= simplify_reshape(op.opview)
                for op in walk(function.operation):
                    changed |= self._refine(op, function)
        for function in self._functions.values():
            for call in find(function.operation, "func.call"):
                self._require_proof(call)

    def _refine(self, op: ir.Operation, function: func.FuncOp) -> bool:
        if op.name == "func.call":
            return self._refine_call(op)
        if op.name == "func.return":
            return _refine_return(op, function)
        return _refine_llmc(op)

    def _refine_call(self, call: ir.Operation) -> bool:
        called = self._functions.get(callee(call))
        if called is None:
            return False
        pairs = zip(called.arguments, call.operands, strict=True)
        types = [_refined(argument.type, _shape(operand)) for argument, operand in pairs]
        changed = self.set_arguments(called, types)
        changed |= _recast(call, types)
        changed |= _retype(list(call.results), called.type.results, ir.InsertionPoint.after(call))
        return changed

    def _require_proof(self, call: ir.Operation) -> None:
        """PassError where an operand had to be cast to a size that it may not have."""
        name = callee(call)
        for operand, old in zip(call.operands, self._old_inputs.get(name, []), strict=False):
            if operand.type != old and not _is_proved(operand, old):
                source = operand.owner.source.type
                fail(call, f"cannot prove that {source} is {operand.type}, as '{name}' needs it")


def _refine_return(op: ir.Operation, function: func.FuncOp) -> bool:
    if len(function.body.blocks) > 1:
        return False
    changed = _recast(op, [_refined(operand.type, _shape(operand)) for operand in op.operands])
    set_type(function, [operand.type for operand in op.operands])
    return changed


def _refine_llmc(op: ir.Operation) -> bool:
    """Makes static what must be of one size with a dimension that is."""
    operands, results = dimensions(op.opview)
    sizes: dict[str, int] = {}
    for letters, value in zip([*operands, *results], [*op.operands, *op.results], strict=False):
        for letter, extent in zip(letters, _shape(value), strict=False):
            if letter != "." and extent >= 0 and sizes.setdefault(letter, extent) != extent:
                return False  # It cannot run: nothing follows.
    if not sizes:
        return False
    changed = _recast(op, _sized(op.operands, operands, sizes))
    changed |= _retype(
        list(op.results), _sized(op.results, results, sizes), ir.InsertionPoint.after(op)
    )
    return changed


def _sized(
    values: Sequence[ir.Value], letters: list[str], sizes: Mapping[str, int]
) -> list[ir.Type]:
    """The types of `values` by what is known of each alone, and by the sizes of their letters."""
    dynamic = ir.ShapedType.get_dynamic_size()
    alone = [_refined(value.type, _shape(value)) for value in values]
    return [
        _refined(type_, [sizes.get(letter, dynamic) for letter in its])
        for type_, its in zip(alone, letters, strict=True)
    ]


def _refined(type_: ir.Type, shape: list[int]) -> ir.Type:
    """`type_`, made static in the dimensions in which `shape` is."""
    if not isinstance(type_, ir.RankedTensorType) or len(shape) != type_.rank:
        return type_
    extents = [old if old >= 0 else new for old, new in zip(type_.shape, shape, strict=True)]
    return ir.RankedTensorType.get(extents, type_.element_type)


def _shape(value: ir.Value) -> list[int]:
    """What is known of a tensor's sizes, also from before a cast; empty for what is no tensor."""
    if not isinstance(value.type, ir.RankedTensorType):
        return []
    return list(_refined(value.type, list(_before_cast(value).type.shape)).shape)


def _before_cast(value: ir.Value) -> ir.Value:
    """What a tensor is cast from, if its rank was known there; else itself."""
    source = value.owner.source if isinstance(value.owner, tensor.CastOp) else value
    return source if isinstance(source.type, ir.RankedTensorType) else value


def _recast(op: ir.Operation, types: Sequence[ir.Type]) -> bool:
    """Makes the operands be of `types`, which refine theirs; whether any is new."""
    changed = False
    for number, type_ in enumerate(types):
        operand = op.operands[number]
        if operand.type != type_:
            before = _before_cast(operand)
            with ir.InsertionPoint(op), op.location:
                fitting = before if before.type == type_ else tensor.cast(type_, operand)
            op.operands[number] = fitting
            changed = True
    return changed


def _retype(values: Sequence[ir.Value], types: Sequence[ir.Type], after: ir.InsertionPoint) -> bool:
    """Makes `values` be of `types`, which refine theirs; whether any is new."""
    changed = False
    for value, type_ in zip(values, types, strict=True):
        old = value.type
        if old != type_:
            value.set_type(type_)
            with after, value.location:
                back = tensor.cast(old, value)
            value.replace_all_uses_except(back, back.owner.operation)
            changed = True
    return changed


def _is_proved(operand: ir.Value, old: ir.Type) -> bool:
    """Whether what `operand` is cast from, if it is, is as static as it, but for `old` sizes."""
    if not isinstance(operand.owner, tensor.CastOp):
        return True
    source = operand.owner.source.type
    sizes = zip(operand.type.shape, old.shape, strict=True)
    return isinstance(source, ir.RankedTensorType) and all(
        size in (was, known) for (size, was), known in zip(sizes, source.shape, strict=True)
    )
