"""Exported programs -> one MLIR module of torch and llmc operations.

The layers of one kind become one private function; the trunk calls it once for each layer. Weights
become `llmc.parameter`, the custom operations of torch_ops become the llmc operations of the same
name; both are wrapped in torch_c casts, which the type conversion in `llmc-import` folds away.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch_mlir import ir
from torch_mlir.dialects import func, tensor
from torch_mlir.extras.fx_importer import FxImporter

from llmc import dialects
from llmc.dialects.attributes import f64, i64
from llmc.dialects.index_notation import index
from llmc.dialects.parameter import STORED
from llmc.frontend import torch_ops
from llmc.frontend.decompositions import decomposed_alike, decompositions
from llmc.frontend.locations import trace_to_model
from llmc.frontend.programs import Program, VariantPrograms
from llmc.pipelines.walks import find

# Makes of the arguments of a `torch.operator`, and of the types of its results, what replaces it.
_Build = Callable[..., ir.OpView | list[ir.Value]]


def import_programs(
    variants: Sequence[VariantPrograms],
    context: ir.Context,
    formats: Mapping[str, str] | None = None,
) -> ir.Module:
    """Imports the variants of one model into one module.

    `formats` are those of the weights that the model stores in blocks, by name: `llmc.stored`.

    For each variant V there is a public function `V(tokens, positions) -> logits` and a private
    `V.layer<k>` for each kind of layer, called once for each layer of that kind, in their order.
    """
    dialects.load(context)
    module = ir.Module.create(ir.Location.unknown(context))
    with decomposed_alike():
        for variant in variants:
            _import_variant(variant, module)
    _state_formats(module, formats or {})
    return module


def _import_variant(variant: VariantPrograms, module: ir.Module) -> None:
    layers = variant.layers
    for kind, program in enumerate(variant.kinds):
        members = layers.members(kind)

        def sources(name: str, members: list[int] = members) -> list[str]:
            return [f"{layers.path}.{index}.{name}" for index in members]

        _import_program(program, module, sources, visibility="private")
    trunk = _import_program(variant.trunk, module, lambda name: [name], visibility=None)
    for call in _torch_operators(trunk, "layer"):
        _replace_layer(call, variant)


def _import_program(
    program: Program,
    module: ir.Module,
    sources: Callable[[str], list[str]],
    visibility: str | None,
) -> ir.Operation:
    exported = program.exported.run_decompositions(decompositions())
    _drop_metadata_assertions(exported.graph_module)
    trace_to_model(exported.graph_module.graph, program.module)
    importer = FxImporter(module=module)
    function = importer.import_frozen_program(
        exported, func_name=program.name, func_visibility=visibility
    )
    with module.context:
        # Sizes that share a symbol are equal: no broadcasting assertions are wanted.
        function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
        _name_parameters(function, [sources(name) for name in program.parameters])
        for name, build in _BUILDERS.items():
            for operator in _torch_operators(function, name):
                _replace_operator(operator, build)
    return function


def _drop_metadata_assertions(graph_module: torch.fx.GraphModule) -> None:
    for node in list(graph_module.graph.nodes):
        if node.target == torch.ops.aten._assert_tensor_metadata.default:
            graph_module.graph.erase_node(node)


def _name_parameters(function: ir.Operation, sources: list[list[str]]) -> None:
    """Replaces the last arguments of `function` by `llmc.parameter` operations."""
    block = function.regions[0].blocks[0]
    inputs = len(block.arguments) - len(sources)
    for argument, names in zip(list(block.arguments)[inputs:], sources, strict=True):
        with ir.InsertionPoint.at_block_begin(block), _first_use(argument, function):
            attribute = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
            value = dialects.ParameterOp(attribute, _builtin_type(argument.type)).out
            argument.replace_all_uses_with(_to_torch(value, argument.type))
    for number in reversed(range(inputs, inputs + len(sources))):
        block.erase_argument(number)
    type_ = ir.TypeAttr(function.attributes["function_type"]).value
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(type_.inputs[:inputs], type_.results)
    )


def _first_use(argument: ir.Value, function: ir.Operation) -> ir.Location:
    """Where a function first uses an argument; where it is itself if nowhere."""
    uses = list(argument.uses)  # the last one first
    return uses[-1].owner.location if uses else function.location


def _state_formats(module: ir.Module, formats: Mapping[str, str]) -> None:
    """Says of the parameters that are stored in blocks, all of them, in which."""
    for op in find(module.operation, "llmc.parameter"):
        stored = [formats.get(name.value, "") for name in op.attributes["sources"]]
        if all(stored):
            with op.context:
                names = [ir.StringAttr.get(name) for name in stored]
                op.attributes[STORED] = ir.ArrayAttr.get(names)


def _torch_operators(root: ir.Operation, name: str) -> list[ir.Operation]:
    """The `torch.operator` operations under `root` for our custom operation `name`."""
    full = f"torch.{torch_ops.NAMESPACE}.{name}"
    return [
        op
        for op in find(root, "torch.operator")
        if ir.StringAttr(op.attributes["name"]).value == full
    ]


def _replace_operator(operator: ir.Operation, build: _Build) -> None:
    """Replaces a `torch.operator` by the llmc operation that `build` makes of its arguments."""
    with ir.InsertionPoint(operator), operator.location:
        arguments = [_argument(operand) for operand in operator.operands]
        op = build(*arguments, *(_builtin_type(result.type) for result in operator.results))
        results = op.results if isinstance(op, ir.OpView) else op
        for old, new in zip(operator.results, results, strict=True):
            old.replace_all_uses_with(_to_torch(new, old.type))
    operator.erase()


def _replace_layer(operator: ir.Operation, variant: VariantPrograms) -> None:
    """Replaces an opaque layer by a call of its kind's function."""
    hidden, extras, kind = operator.operands
    callee = variant.kinds[kind.owner.attributes["value"].value].name
    with ir.InsertionPoint(operator), operator.location:
        call = func.CallOp([operator.results[0].type], callee, [hidden, *extras.owner.operands])
    operator.results[0].replace_all_uses_with(call.results[0])
    operator.erase()


def _argument(value: ir.Value) -> ir.Value | int | float | bool | None:
    """A tensor as a builtin tensor, a torch constant as a Python value."""
    name = value.owner.name if isinstance(value.owner, ir.Operation | ir.OpView) else ""
    if name == "torch.constant.none":
        return None
    if name in ("torch.constant.int", "torch.constant.float", "torch.constant.bool"):
        return value.owner.attributes["value"].value
    return _to_builtin(value)


def _builtin_type(type_: ir.Type) -> ir.RankedTensorType:
    """`!torch.vtensor<[1,?,64],f32>` as `tensor<1x?x64xf32>`; the binding shows it as text only."""
    text = str(type_)
    prefix = "!torch.vtensor<["
    if not text.startswith(prefix):
        raise TypeError(f"expected a ranked torch tensor, got {text}")
    shape, element = text[len(prefix) : -1].rsplit("],", 1)
    element = {"si64": "i64"}.get(element, element)
    dims = "".join(f"{dim}x" for dim in shape.split(",") if dim)
    return ir.Type.parse(f"tensor<{dims}{element}>")


def _to_builtin(value: ir.Value) -> ir.Value:
    return ir.Operation.create(
        "torch_c.to_builtin_tensor", results=[_builtin_type(value.type)], operands=[value]
    ).result


def _to_torch(value: ir.Value, type_: ir.Type) -> ir.Value:
    return ir.Operation.create(
        "torch_c.from_builtin_tensor", results=[type_], operands=[value]
    ).result


def _scored_route(
    logits: ir.Value,
    bias: ir.Value | None,
    _count: int,
    sigmoid: bool,
    normalised: bool,
    scale: float,
    groups: int,
    kept_groups: int,
    best: int,
    *types: ir.RankedTensorType,
) -> dialects.ScoredRouteOp:
    flags = i64(int(sigmoid)), i64(int(normalised))
    counts = map(i64, (groups, kept_groups, best))
    return dialects.ScoredRouteOp(logits, *flags, f64(scale), *counts, *types, bias=bias)


def _top_k(x: ir.Value, count: int, *types: ir.RankedTensorType) -> list[ir.Value]:
    """`llmc.top_k`, to which the count is a value, of a count that is known."""
    dynamic = ir.ShapedType.get_dynamic_size()
    found = [
        ir.RankedTensorType.get([type_.shape[0], dynamic], type_.element_type) for type_ in types
    ]
    op = dialects.TopKOp(x, index(count), *found)
    return [tensor.cast(type_, result) for type_, result in zip(types, op.results, strict=True)]


_BUILDERS: dict[str, _Build] = {
    "attention": lambda query, key, value, scale, window, softcap, out: dialects.AttentionOp(
        query, key, value, f64(scale), i64(window), f64(softcap), out
    ),
    "scored_route": _scored_route,
    "combine_experts": dialects.CombineExpertsOp,
    "embedding": dialects.EmbeddingOp,
    "expert_linear": lambda x, expert, weight, top_k, transposed, out: dialects.ExpertLinearOp(
        x, expert, weight, i64(top_k), i64(int(transposed)), out
    ),
    "layer_norm": lambda x, weight, bias, epsilon, out: dialects.LayerNormOp(
        x, f64(epsilon), out, weight=weight, bias=bias
    ),
    "linear": lambda x, weight, bias, transposed, out: dialects.LinearOp(
        x, weight, i64(int(transposed)), out, bias=bias
    ),
    "rms_norm": lambda x, weight, epsilon, offset, out: dialects.RMSNormOp(
        x, f64(epsilon), f64(offset), out, weight=weight
    ),
    "rotary": lambda x, cos, sin, interleaved, out: dialects.RotaryOp(
        x, cos, sin, i64(int(interleaved)), out
    ),
    "route": lambda logits, _count, normalised, weights, experts: dialects.RouteOp(
        logits, i64(int(normalised)), weights, experts
    ),
    "top_k": _top_k,
}
