"""`bind-parameters`: ties weight expressions to globals outside the program."""

from dataclasses import dataclass
from itertools import chain, count
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, func, ml_program, tensor
from torch_mlir.extras import types as T

from llmc.dialects import ParameterOp
from llmc.dialects.index_notation import letters, pointwise, slice_of
from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import OneOf
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import Computed, Recipe, recipe_of
from llmc.pipelines.rewriting.functions import calls_of, functions
from llmc.pipelines.rewriting.generics import integer_constant
from llmc.pipelines.rewriting.layers import is_layer, layer_argument
from llmc.pipelines.rewriting.operations import is_read, is_used
from llmc.pipelines.rewriting.weight_readers import EMBEDDINGS, LINEARS
from llmc.pipelines.walks import find, walk

RECIPE = "llmc.recipe"
STORAGES = ("f32", "f16", "bf16")
_PACKED = {("llmc.packed_linear", 1), ("llmc.packed_expert_linear", 2)}
_WIDENS_ITSELF = LINEARS | _PACKED | EMBEDDINGS
# Where a token stands must not be rounded.
_EXACT = ("llmc.rotary_table",)


@dataclass(frozen=True)
class BindParameters(Pass):
    """Makes a global of each weight expression: of what is computed from `llmc.parameter`s alone.

    What the layers of one kind compute alike is stacked `[layers, ...]` in one global, of which a
    layer's function reads the slice of its `%layer`. Equal expressions share a global. Its
    attribute `llmc.recipe` says how the archive of weights computes it: nothing is computed when
    the module runs. Matrices are stored as `storage` (f32, f16, bf16) and widened where they are
    used; vectors, such as a layer of one output has, and rotary tables stay in float32. Storage
    other than f32 changes numerics.
    """

    name: ClassVar[str] = "bind-parameters"
    storage: Annotated[str, OneOf(STORAGES)] = "f32"

    def apply(self, module: ir.Module) -> None:
        """Replaces the weight expressions of every function.

        PassError where one names other than as many weights as there are layers of the function.
        """
        bound = _Globals(module)
        for function in functions(module):
            is_stacked = is_layer(function)
            weights = find(function.operation, ParameterOp.OPERATION_NAME)
            needed = _layers(module, function) if weights and is_stacked else 1
            # From the last operation on: an expression goes before those that it contains.
            for op in reversed(list(walk(function.operation))):
                recipe = recipe_of(op.results[0]) if len(op.results) == 1 else None
                if recipe is None:
                    continue
                if is_used(op):
                    if needed not in (recipe.layers, 0):
                        fail(op, f"{recipe.layers} weights are named, but {needed} needed")
                    type_ = self._stored_type(op, recipe, is_stacked)
                    _replace(op.results[0], function, bound.symbol(recipe, type_, op), type_)
                op.erase()

    def _stored_type(self, op: ir.Operation, recipe: Recipe, stacked: bool) -> ir.RankedTensorType:
        type_ = op.results[0].type
        element = type_.element_type
        if _is_matrix(type_) and element == T.f32() and op.name not in _EXACT:
            element = ir.Type.parse(self.storage)
        shape = [recipe.layers, *type_.shape] if stacked else type_.shape
        return ir.RankedTensorType.get(shape, element)


def _is_matrix(type_: ir.RankedTensorType) -> bool:
    return sum(extent > 1 for extent in type_.shape) > 1


def _layers(module: ir.Module, function: func.FuncOp) -> int:
    """For how many layers a layer function is called, as far as the calls say their numbers."""
    argument = ir.BlockArgument(layer_argument(function)).arg_number
    numbers = (integer_constant(call.operands[argument]) for call in calls_of(module, function))
    return 1 + max((number for number in numbers if number is not None), default=-1)


class _Globals:
    """The globals of a module, by their recipes."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.symbols = {
            ir.StringAttr(op.attributes["sym_name"]).value
            for op in module.body
            if "sym_name" in op.attributes
        }
        self.bound: dict[Recipe, tuple[str, ir.RankedTensorType]] = {}

    def symbol(self, recipe: Recipe, type_: ir.RankedTensorType, op: ir.Operation) -> str:
        """The global of `recipe`, declared where there is none yet."""
        if recipe not in self.bound:
            self.bound[recipe] = self._declare(recipe, type_, op.location), type_
        symbol, known = self.bound[recipe]
        if known != type_:
            fail(op, f"'{symbol}' is needed as {type_}, and elsewhere as {known}")
        return symbol

    def _declare(self, recipe: Recipe, type_: ir.RankedTensorType, location: ir.Location) -> str:
        symbol = self._free_name(recipe)
        self.symbols.add(symbol)
        with ir.InsertionPoint.at_block_begin(self.module.body), location:
            elsewhere = ir.Attribute.parse(f"#ml_program.extern : {type_}")
            declared = ml_program.GlobalOp(symbol, type_, value=elsewhere, sym_visibility="private")
            declared.attributes[RECIPE] = recipe.attribute()
        return symbol

    def _free_name(self, recipe: Recipe) -> str:
        """The recipe's own name, or one that says by which operation it differs."""
        if recipe.name not in self.symbols:
            return recipe.name
        last = recipe.step.operation.rpartition(".")[2] if isinstance(recipe, Computed) else "plain"
        longer = f"{recipe.name}.{last}"
        names = chain([longer], (f"{longer}{number}" for number in count(2)))
        return next(name for name in names if name not in self.symbols)


def _replace(
    value: ir.Value, function: func.FuncOp, symbol: str, type_: ir.RankedTensorType
) -> None:
    """Reads the global in the place of `value`."""
    with ir.InsertionPoint(value.owner), value.owner.location:
        stored = ml_program.global_load(type_, ir.FlatSymbolRefAttr.get(symbol))
        if is_layer(function):
            rest = list(value.type.shape)
            offsets = [layer_argument(function), *[0] * len(rest)]
            stored = slice_of(stored, offsets, [1, *rest], rest)
        if stored.type == value.type:
            value.replace_all_uses_with(stored)
        else:
            _widen_uses(value, stored)


def _widen_uses(wide: ir.Value, narrow: ir.Value) -> None:
    """Hands the narrow value to those that widen it themselves, element by element to lookups."""
    element = wide.type.element_type
    for use in list(wide.uses):
        user = use.owner.operation
        if (user.name, use.operand_number) in _WIDENS_ITSELF:
            user.operands[use.operand_number] = narrow
        elif user.name == "tensor.extract":
            with ir.InsertionPoint(user), user.location:
                looked_up = tensor.extract(narrow, list(user.operands)[1:])
                user.results[0].replace_all_uses_with(arith.extf(element, looked_up))
            user.erase()
    if is_read(wide):
        lead = letters(narrow.type.rank)
        widened = pointwise(
            f"{lead}->{lead}", lambda x, _: arith.extf(element, x), narrow, element=element
        )
        wide.replace_all_uses_with(widened)
