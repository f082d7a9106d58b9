"""Functions, calls, state and weights: what surrounds the operations that compute."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.dialects import ParameterOp
from llmc.pipelines.passes.bind_parameters import RECIPE
from llmc.pipelines.recipes.recipe import read_recipe
from llmc.pipelines.rewriting.functions import globals_with
from llmc.pipelines.rewriting.layers import LAYER
from tests.interpreter.types import dtype_of

Values = Sequence[np.ndarray]
Evaluator = Callable[["Frame", ir.Operation], Values]

EVALUATORS: dict[str, Evaluator] = {}


def evaluates(*names: str) -> Callable[[Evaluator], Evaluator]:
    """Registers an evaluator for the operations called `names`, or all below: `torch.aten`."""

    def register(evaluator: Evaluator) -> Evaluator:
        EVALUATORS.update(dict.fromkeys(names, evaluator))
        return evaluator

    return register


class Machine:
    """A module that can be called, with its state. `weights` are those of `llmc.parameter`.

    `functions` are the functions by name, `globals` the state.
    """

    def __init__(self, module: ir.Module, weights: Mapping[str, np.ndarray]) -> None:
        self._module = _generalized(module)
        self.functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op.operation
            for op in self._module.body
            if op.operation.name == "func.func"
        }
        self.weights = weights
        self.globals = self._bound_weights()

    def call(self, name: str, *arguments: np.ndarray, layer: int = 0) -> Values:
        """Runs a function. `layer` numbers the calls of a layer's function in a trunk."""
        function = self.functions[name]
        if LAYER in function.attributes:
            layer = int(arguments[ir.IntegerAttr(function.attributes[LAYER]).value])
        frame = self.new_frame(layer)
        (block,) = function.regions[0].blocks
        return frame.run(block, arguments)

    def new_frame(self, layer: int) -> "Frame":
        """What runs a function."""
        return Frame(self, layer)

    def _bound_weights(self) -> dict[str, np.ndarray]:
        """The globals that `bind-parameters` has made, as the archive would hold them."""
        bound = {}
        for op in globals_with(self._module, RECIPE):
            recipe = read_recipe(op.attributes[RECIPE])
            layers = [recipe.compute(self.weights.__getitem__, n, {}) for n in range(recipe.layers)]
            type_ = op.attributes["type"].value
            value = _as_stored(np.stack(layers), type_)
            bound[ir.StringAttr(op.attributes["sym_name"]).value] = value.reshape(type_.shape)
        return bound


@dataclass
class Frame:
    """One run of a function: its values so far, and where its loops are."""

    machine: Machine
    layer: int
    values: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    indices: tuple[np.ndarray, ...] = ()
    calls: Counter[str] = field(default_factory=Counter)

    def run(self, block: ir.Block, arguments: Values) -> Values:
        """Runs `block`; what its terminator hands on."""
        self.values |= zip(block.arguments, arguments, strict=True)
        *body, terminator = (op.operation for op in block)
        for op in body:
            self.values |= zip(op.results, self._evaluate(op), strict=True)
        return self.operands(terminator)

    def operands(self, op: ir.Operation) -> Values:
        """The values of all operands of `op`."""
        return [self.values[operand] for operand in op.operands]

    def _evaluate(self, op: ir.Operation) -> Values:
        evaluator = EVALUATORS.get(op.name) or EVALUATORS.get(".".join(op.name.split(".")[:2]))
        if evaluator is None:
            raise NotImplementedError(f"the tests' interpreter has no evaluator of {op}")
        return evaluator(self, op)


def _generalized(module: ir.Module) -> ir.OpView:
    """A copy of `module` whose linalg operations are generics, as far as they can be."""
    with module.context, ir.Location.unknown():
        copy = module.operation.clone()
        PassManager.parse("builtin.module(func.func(linalg-generalize-named-ops))").run(copy)
    return copy.opview


@evaluates("func.call")
def _call(frame: Frame, op: ir.Operation) -> Values:
    callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    layer = frame.calls[callee]
    frame.calls[callee] += 1
    return frame.machine.call(callee, *frame.operands(op), layer=layer)


@evaluates("llmc.parameter")
def _parameter(frame: Frame, op: ir.Operation) -> Values:
    sources = [ir.StringAttr(source).value for source in op.attributes["sources"]]
    layer = frame.layer if len(sources) > 1 else 0
    weight = ParameterOp.reference(sources, frame.machine.weights, layer)
    return [_as_stored(weight, op.results[0].type)]


def _as_stored(weight: np.ndarray, type_: ir.RankedTensorType) -> np.ndarray:
    """A weight in its type: blocks may be held as their bytes."""
    dtype = dtype_of(type_.element_type)
    if weight.dtype.names and not dtype.names:
        return np.ascontiguousarray(weight)[..., None].view(dtype)
    return weight if weight.dtype == dtype else weight.astype(dtype)


@evaluates("ml_program.global_load", "util.global.load")
def _load(frame: Frame, op: ir.Operation) -> Values:
    return [frame.machine.globals[_symbol(op)]]


@evaluates("ml_program.global_store", "util.global.store")
def _store(frame: Frame, op: ir.Operation) -> Values:
    (frame.machine.globals[_symbol(op)],) = frame.operands(op)
    return []


def _symbol(op: ir.Operation) -> str:
    return ir.SymbolRefAttr(op.attributes["global"]).value[-1]


@evaluates("scf.if")
def _if(frame: Frame, op: ir.Operation) -> Values:
    (condition,) = frame.operands(op)
    region = op.regions[0 if condition else 1]
    return frame.run(region.blocks[0], []) if len(region.blocks) else []


@evaluates("scf.for")
def _for(frame: Frame, op: ir.Operation) -> Values:
    lower, upper, step, *carried = frame.operands(op)
    for index in range(int(lower), int(upper), int(step)):
        carried = list(frame.run(op.regions[0].blocks[0], [np.int64(index), *carried]))
    return carried


@evaluates("scf.while")
def _while(frame: Frame, op: ir.Operation) -> Values:
    check, step = (region.blocks[0] for region in op.regions)
    carried = frame.operands(op)
    while True:
        goes_on, *carried = frame.run(check, carried)
        if not goes_on:
            return carried
        carried = frame.run(step, carried)


@evaluates("cf.assert")
def _assert(frame: Frame, op: ir.Operation) -> Values:
    assert np.all(frame.operands(op)[0]), op.attributes["msg"]
    return []
