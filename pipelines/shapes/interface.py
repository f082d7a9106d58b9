"""What the arguments of a function are called in formulas: `tokens`, `past` and their like."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.runtime.abi import RESET, SAMPLED, SAMPLED_BATCH, TOP_K


def argument_names(function: func.FuncOp) -> list[tuple[str, ...]]:
    """A name for each dimension of an argument that is a tensor, and for a number that has one."""
    types = [argument.type for argument in function.arguments]
    ranks = [type_.rank if isinstance(type_, ir.RankedTensorType) else None for type_ in types]
    if function.sym_name.value == RESET and ranks == [None, None]:
        return [("sequences",), ("capacity",)]
    if function.sym_name.value == TOP_K and ranks == [2, None]:
        return [("batch", "vocabulary"), ("count",)]
    if function.sym_name.value in (SAMPLED, SAMPLED_BATCH) and ranks == [2, 1, *[None] * 3, 1, 2]:
        numbers = ("sequence",), ("past",), ("top_k",)
        return [("batch", "tokens"), ("batch",), *numbers, ("options",), ("count", "batch")]
    if ranks in ([2, 2], [2, 1, *[None] * 2], [2, 1, *[None] * 3]) and _are_numbers(types):
        per_rank = {1: ("batch",), 2: ("batch", "tokens")}
        scalars = iter((("sequence",), ("past",), ("count",)))
        return [next(scalars) if rank is None else per_rank[rank] for rank in ranks]
    # An integer may be negative, and is not named; few are extents.
    return [
        tuple(f"arg{number}_dim{dim}" for dim in range(rank or 0))
        for number, rank in enumerate(ranks)
    ]


def _are_numbers(types: list[ir.Type]) -> bool:
    """Whether these are integers, and tensors of them, as the arguments of a model's variants."""
    elements = [getattr(type_, "element_type", type_) for type_ in types]
    return all(isinstance(element, ir.IntegerType) for element in elements)
