"""What passes that rewrite weight expressions ask of them.

A slice of a parameter counts as a matrix of its own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from torch_mlir import ir

from llmc.dialects.blocks import FORMATS, BlockFormat, common_format
from llmc.dialects.parameter import STORED
from llmc.pipelines.recipes.recipe import Recipe, recipe_of, weight_operands
from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.walks import find

_T = TypeVar("_T")


def is_used_once(weight: ir.Value) -> bool:
    """Whether `weight` is a weight expression that, with its matrices, serves one operation alone.

    What is made of it is then stored in its place, not beside it.
    """
    if recipe_of(weight) is None:
        return False
    return all(len(list(part.uses)) == 1 for part in _parts(weight) if part.type.rank > 1)


def read_by(module: ir.Module, readers: Collection[tuple[str, int]]) -> list[ir.Value]:
    """What `readers` read in a module, each once.

    A reader is the name of an operation and the number of its operand.
    """
    numbers = dict(readers)
    found = find(module.operation, *numbers)
    return list(dict.fromkeys(op.operands[numbers[op.name]] for op in found))


def computed_by(
    module: ir.Module, recipe: Recipe, readers: Collection[tuple[str, int]]
) -> list[ir.Value]:
    """What `readers`, as for `read_by`, read that `recipe` computes; each function has its own."""
    return [weight for weight in read_by(module, readers) if recipe_of(weight) == recipe]


def serves_only(weight: ir.Value, readers: Collection[tuple[str, int]]) -> bool:
    """Whether `weight` is a weight expression that `readers` alone read, and it alone its matrices.

    These are as for `read_by`.
    """
    if recipe_of(weight) is None:
        return False
    uses = [(use.owner.operation.name, use.operand_number) for use in weight.uses]
    inner = [part for part in _parts(weight)[1:] if part.type.rank > 1]
    return all(use in readers for use in uses) and all(len(list(p.uses)) == 1 for p in inner)


def stored_format(weight: ir.Value) -> BlockFormat | None:
    """The format that holds the blocks in which the model stores the matrices of an expression.

    The layers, and the operands of an expression, may differ; None where one is not in blocks.
    """
    parameters = _matrices([weight])
    formats = [FORMATS.get(name) for op in parameters for name in _stored(op)]
    known = [format_ for format_ in formats if format_ is not None]
    is_in_blocks = known and len(known) == len(formats)
    return common_format(known) if is_in_blocks else None


def stored_alike(
    module: ir.Module, rewrites: Sequence[_T], weights: Callable[[_T], Sequence[ir.Value]]
) -> list[_T]:
    """Those of `rewrites` that, together, reach all reads of the matrices in their `weights`.

    Else one function would read a matrix in the new form, another in the old, and both be stored.
    """
    leaves = find(module.operation, "llmc.parameter", "tensor.extract_slice")
    everywhere = Counter(_name(op) for op in leaves if _is_matrix(op) and is_used(op))
    matrices = [[_name(op) for op in _matrices(weights(rewrite))] for rewrite in rewrites]
    kept = list(range(len(rewrites)))
    while True:
        reached = Counter(sources for number in kept for sources in matrices[number])
        reaching = [
            number
            for number in kept
            if all(reached[name] == everywhere[name] for name in matrices[number])
        ]
        if reaching == kept:
            return [rewrites[number] for number in kept]
        kept = reaching


def hoist(weight: ir.Value, anchor: ir.Operation) -> None:
    """Moves the operations of a weight expression that come after `anchor` to before it."""
    if isinstance(weight.owner, ir.Block):
        return
    op = weight.owner.operation
    if op.block != anchor.block or op.is_before_in_block(anchor):
        return
    for operand in op.operands:
        hoist(operand, anchor)
    op.move_before(anchor)


def _parts(weight: ir.Value) -> list[ir.Value]:
    """`weight` and all that it is computed from, down to its matrices."""
    if not isinstance(weight.owner, ir.Block) and _is_matrix(weight.owner):
        return [weight]
    return [weight, *(part for operand in weight_operands(weight) for part in _parts(operand))]


def _matrices(weights: Sequence[ir.Value]) -> list[ir.Operation]:
    """The matrices in weight expressions, vectors left out: two forms of these cost nothing."""
    return [
        part.owner.operation
        for weight in weights
        for part in _parts(weight)
        if _is_matrix(part.owner) and part.type.rank > 1
    ]


def _is_matrix(op: ir.Operation | ir.OpView) -> bool:
    """Whether `op` is a parameter that is not only sliced, or a slice of one."""
    if op.name == "llmc.parameter":
        users = [use.owner for use in op.results[0].uses]
        return not users or not all(user.name == "tensor.extract_slice" for user in users)
    return op.name == "tensor.extract_slice" and _parameter(op.operation).name == "llmc.parameter"


def _parameter(matrix: ir.Operation) -> ir.Operation:
    """The parameter that a matrix is, or is a slice of."""
    if matrix.name == "llmc.parameter" or isinstance(matrix.operands[0].owner, ir.Block):
        return matrix
    return matrix.operands[0].owner.operation


def _name(matrix: ir.Operation) -> tuple[ir.Attribute, ...]:
    """What tells a matrix from others: its sources, and of which part of them it is."""
    sources = _parameter(matrix).attributes["sources"]
    part = ("static_offsets", "static_sizes")
    return (sources, *(matrix.attributes[each] for each in part if each in matrix.attributes))


def _stored(matrix: ir.Operation) -> list[str]:
    """The format of each of a matrix's weights; one empty name where none is known."""
    formats = _parameter(matrix).attributes.get(STORED)
    if not isinstance(formats, ir.ArrayAttr):
        return [""]
    return [name.value if isinstance(name, ir.StringAttr) else "" for name in formats]
