"""`specialize-tokens`: a copy of a variant for one number of tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.errors import fail
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import callee
from llmc.pipelines.rewriting.layers import layer_functions, trunks
from llmc.pipelines.rewriting.refinement import Refinement
from llmc.pipelines.walks import find

_Size = Annotated[int, Range(0, 2**31 - 1)]


@dataclass(frozen=True)
class SpecializeTokens(Pass):
    """Copies a public function, and the layers that it calls, for arguments of a fixed size.

    The copy of `function` is called `copy`, or FUNCTION_SIZE without. Where the second dimension of
    an argument is dynamic it becomes `tokens`, and where the first is, `batch`; 0 leaves it. The
    types in the copy follow, as far as canonicalisation and what is known of llmc operations carry.
    A layer is made for what its first call passes; it is an error where another call cannot be
    proved to pass the same.
    """

    name: ClassVar[str] = "specialize-tokens"
    idempotent: ClassVar[bool] = False
    function: str = "prefill"
    tokens: _Size = 1
    batch: _Size = 0
    copy: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens == self.batch == 0:
            raise ValueError("tokens and batch are both 0: one must be positive")

    def apply(self, module: ir.Module) -> None:
        """Adds the copies before the function."""
        trunk = self._find(module)
        copies = self._copy(trunk, module)
        refinement = Refinement(copies)
        types = [self._sized(argument.type) for argument in trunk.arguments]
        refinement.set_arguments(copies[self._copied(self.function)], types)
        refinement.run()

    def _find(self, module: ir.Module) -> func.FuncOp:
        named = {trunk.sym_name.value: trunk for trunk in trunks(module)}
        if self.function not in named:
            fail(module.operation, f"there is no public function '{self.function}'")
        trunk = named[self.function]
        for axis, what in enumerate(("sequences", "tokens")):
            dynamic = [_is_dynamic(argument.type, axis) for argument in trunk.arguments]
            if self._sizes[axis] and not any(dynamic):
                fail(trunk, f"no argument has a dynamic number of {what}")
        return trunk

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.batch, self.tokens

    def _sized(self, type_: ir.Type) -> ir.Type:
        if not isinstance(type_, ir.RankedTensorType):
            return type_
        shape = list(type_.shape)
        for axis, size in enumerate(self._sizes):
            if size and _is_dynamic(type_, axis):
                shape[axis] = size
        return ir.RankedTensorType.get(shape, type_.element_type)

    def _copied(self, name: str) -> str:
        """What the copy of a function is called: of `prefill.layer0`, `prefill_1.layer0`."""
        sizes = "x".join(str(size) for size in self._sizes if size)
        copy = self.copy or f"{self.function}_{sizes}"
        if name == self.function:
            return copy
        return f"{copy}.{name.removeprefix(f'{self.function}.')}"

    def _copy(self, trunk: func.FuncOp, module: ir.Module) -> dict[str, func.FuncOp]:
        """Copies of `trunk` and of the layer functions that it calls, by name."""
        originals = _with_layers(trunk, module)
        taken = [op.attributes["sym_name"] for op in module.body if "sym_name" in op.attributes]
        copies = {}
        for original in reversed(originals):
            name = self._copied(original.sym_name.value)
            if ir.StringAttr.get(name) in taken or name in copies:
                fail(original, f"the name of its copy, '{name}', is taken")
            with ir.InsertionPoint(trunk):
                copies[name] = original.operation.clone().opview
            copies[name].attributes["sym_name"] = ir.StringAttr.get(name)
        for layer in originals[1:]:
            name = layer.sym_name.value
            for copy in copies.values():
                ir.SymbolTable.replace_all_symbol_uses(name, self._copied(name), copy.operation)
        return copies


def _with_layers(trunk: func.FuncOp, module: ir.Module) -> list[func.FuncOp]:
    """`trunk`, and the layer functions that it and they call."""
    layers = {layer.sym_name.value: layer for layer in layer_functions(module)}
    found = {trunk.sym_name.value: trunk}
    waiting = [trunk]
    while waiting:
        for call in find(waiting.pop().operation, "func.call"):
            name = callee(call)
            if name in layers and name not in found:
                found[name] = layers[name]
                waiting.append(layers[name])
    return list(found.values())


def _is_dynamic(type_: ir.Type, axis: int) -> bool:
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return is_tensor and axis < type_.rank and type_.is_dynamic_dim(axis)
