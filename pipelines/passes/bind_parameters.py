"""`bind-parameters`: ties the names of weights to globals outside the program."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, ml_program, tensor

from llmc.dialects import ParameterOp
from llmc.dialects.index_notation import pointwise, slice_of
from llmc.pipelines.passes.base import Pass, fail, find, functions, is_layer
from llmc.pipelines.passes.number_layers import layer_argument
from llmc.pipelines.passes.pack_weights import LAYOUT

SOURCES = "llmc.sources"
STORAGES = ("f32", "f16", "bf16")
_WIDENS_ITSELF = {
    ("llmc.linear", 1),
    ("llmc.packed_linear", 1),
    ("llmc.expert_linear", 2),
    ("llmc.packed_expert_linear", 2),
}


@dataclass(frozen=True)
class BindParameters(Pass):
    """Makes a global of each `llmc.parameter`.

    The weights that the layers of one kind have under one name are stacked `[layers, ...]` in one
    global, of which a layer's function reads the slice of its `%layer`. A global's attribute
    `llmc.sources` lists the weights to put there, `llmc.layout` how to lay them out. Matrices are
    stored as `storage` (f32, f16, bf16) and widened where they are used; vectors stay in float32.
    Storage other than f32 changes numerics.
    """

    name: ClassVar[str] = "bind-parameters"
    storage: str = "f32"

    def __post_init__(self) -> None:
        if self.storage not in STORAGES:
            raise ValueError(f"storage must be one of {', '.join(STORAGES)}, not '{self.storage}'")

    def apply(self, module: ir.Module) -> None:
        """Replaces the parameters of every function."""
        bound: dict[str, ir.RankedTensorType] = {}
        for function in functions(module):
            for op in find(function.operation, "llmc.parameter"):
                parameter = op.opview
                symbol = _symbol(parameter)
                type_ = self._global_type(parameter, stacked=is_layer(function))
                if symbol not in bound:
                    bound[symbol] = type_
                    _declare(module, symbol, type_, parameter)
                elif bound[symbol] != type_:
                    fail(op, f"'{symbol}' is needed as {type_}, and elsewhere as {bound[symbol]}")
                _replace(parameter, function, symbol, type_)

    def _global_type(self, parameter: ParameterOp, stacked: bool) -> ir.RankedTensorType:
        type_ = parameter.out.type
        element = type_.element_type
        if type_.rank > 1 and element == ir.F32Type.get():
            element = ir.Type.parse(self.storage)
        shape = [len(parameter.sources), *type_.shape] if stacked else type_.shape
        return ir.RankedTensorType.get(shape, element)


def _symbol(parameter: ParameterOp) -> str:
    return ir.StringAttr(parameter.sources[0]).value


def _declare(
    module: ir.Module, symbol: str, type_: ir.RankedTensorType, parameter: ParameterOp
) -> None:
    with ir.InsertionPoint.at_block_begin(module.body):
        elsewhere = ir.Attribute.parse(f"#ml_program.extern : {type_}")
        declared = ml_program.GlobalOp(symbol, type_, value=elsewhere, sym_visibility="private")
        declared.attributes[SOURCES] = parameter.sources
        if LAYOUT in parameter.attributes:
            declared.attributes[LAYOUT] = parameter.attributes[LAYOUT]


def _replace(
    parameter: ParameterOp, function: func.FuncOp, symbol: str, type_: ir.RankedTensorType
) -> None:
    wide = parameter.out.type
    with ir.InsertionPoint(parameter), parameter.location:
        value = ml_program.global_load(type_, ir.FlatSymbolRefAttr.get(symbol))
        if is_layer(function):
            rest = list(wide.shape)
            offsets = [layer_argument(function), *[0] * len(rest)]
            value = slice_of(value, offsets, [1, *rest], rest)
        if value.type == wide:
            parameter.out.replace_all_uses_with(value)
        else:
            _widen_uses(parameter, value)
    parameter.operation.erase()


def _widen_uses(parameter: ParameterOp, narrow: ir.Value) -> None:
    """Hands the narrow value to those that widen it themselves, element by element to lookups."""
    element = parameter.out.type.element_type
    for use in list(parameter.out.uses):
        user = use.owner.operation
        if (user.name, use.operand_number) in _WIDENS_ITSELF:
            user.operands[use.operand_number] = narrow
        elif user.name == "tensor.extract":
            with ir.InsertionPoint(user), user.location:
                looked_up = tensor.extract(narrow, list(user.operands)[1:])
                user.results[0].replace_all_uses_with(arith.extf(element, looked_up))
            user.erase()
    if any(True for _ in parameter.out.uses):
        letters = "abcdefgh"[: narrow.type.rank]
        widened = pointwise(
            f"{letters}->{letters}", lambda x, _: arith.extf(element, x), narrow, element=element
        )
        parameter.out.replace_all_uses_with(widened)
