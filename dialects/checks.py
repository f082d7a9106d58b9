"""What the verifiers of the llmc dialect share: checks that name the operand and what was expected."""

from torch_mlir import ir


class Mismatch(Exception):
    """An operand or attribute is not as the operation says."""


def verified(check):
    """Turns a check that raises Mismatch into an MLIR verifier that emits a diagnostic."""

    def verify_invariants(op) -> bool:
        try:
            check(op)
        except Mismatch as mismatch:
            op.location.emit_error(f"'{op.OPERATION_NAME}' op {mismatch}")
            return False
        return True

    return verify_invariants


def tensor_of(value: ir.Value, name: str, rank: int | None = None) -> list[int | None]:
    """The shape of tensor operand `name`, None where dynamic."""
    if not isinstance(value.type, ir.RankedTensorType):
        raise Mismatch(f"operand '{name}' must be a ranked tensor, but is {value.type}")
    if rank is not None and value.type.rank != rank:
        raise Mismatch(f"operand '{name}' must have rank {rank}, but is {value.type}")
    type_ = value.type
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def same(name: str, what: str, actual: int | None, expected: int | None) -> None:
    """Two extents agree, or one of them is dynamic."""
    if actual is not None and expected is not None and actual != expected:
        raise Mismatch(f"operand '{name}' must have {what} = {expected}, but has {actual}")


def require(condition: bool, message: str) -> None:
    """Raises Mismatch with `message` unless `condition` holds."""
    if not condition:
        raise Mismatch(message)
