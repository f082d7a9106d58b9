"""What passes that rewrite weight expressions ask of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from torch_mlir import ir

from llmc.pipelines.passes.base import find
from llmc.pipelines.recipes.recipe import recipe_of, weight_operands

_T = TypeVar("_T")


def is_used_once(weight: ir.Value) -> bool:
    """Whether `weight` is a weight expression that, with its matrices, serves one operation alone.

    What is made of it is then stored in its place, not beside it.
    """
    if recipe_of(weight) is None:
        return False
    return all(len(list(part.uses)) == 1 for part in _parts(weight) if part.type.rank > 1)


def stored_alike(
    module: ir.Module, rewrites: Sequence[_T], weights: Callable[[_T], Sequence[ir.Value]]
) -> list[_T]:
    """Those of `rewrites` that, together, reach all reads of the matrices in their `weights`.

    Else one function would read a matrix in the new form, another in the old, and both be stored.
    """
    everywhere = Counter(
        _sources(op) for op in find(module.operation, "llmc.parameter") if _is_read(op)
    )
    matrices = [[_sources(op) for op in _matrices(weights(rewrite))] for rewrite in rewrites]
    kept = list(range(len(rewrites)))
    while True:
        reached = Counter(sources for number in kept for sources in matrices[number])
        reaching = [
            number
            for number in kept
            if all(reached[sources] == everywhere[sources] for sources in matrices[number])
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
    """`weight` and all that it is computed from."""
    return [weight, *(part for operand in weight_operands(weight) for part in _parts(operand))]


def _matrices(weights: Sequence[ir.Value]) -> list[ir.Operation]:
    """The parameters in weight expressions, vectors left out: two forms of these cost nothing."""
    return [
        part.owner.operation
        for weight in weights
        for part in _parts(weight)
        if part.owner.name == "llmc.parameter" and part.type.rank > 1
    ]


def _sources(parameter: ir.Operation) -> ir.Attribute:
    return parameter.attributes["sources"]


def _is_read(op: ir.Operation) -> bool:
    return any(True for _ in op.results[0].uses)
