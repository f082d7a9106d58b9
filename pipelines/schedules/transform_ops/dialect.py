"""The dialect of our own transform operations, which MLIR lacks."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, transform


class LlmcTransform(ext.Dialect, name="llmc_transform"):
    """Transform operations of our own."""


# The base class of the operations, which `ext` makes at run time.
Operation: Any = LlmcTransform.Operation


def load(context: ir.Context) -> None:
    """Makes our transform operations known to `context`."""
    if not context.is_dialect_loaded(LlmcTransform.DIALECT_NAMESPACE):
        with context, ir.Location.unknown():
            LlmcTransform.load()


class Rewriting(transform.TransformOpInterface):
    """What MLIR's interpreter does at an operation that rewrites what its first handle holds."""

    @staticmethod
    def rewrite(
        op: Any, target: ir.Operation, rewriter: transform.TransformRewriter
    ) -> list[ir.Operation] | None:
        """Rewrites one operation of the payload; what the result of `op`, if it has one, holds."""
        raise NotImplementedError

    @classmethod
    def apply(
        cls,
        op: Any,
        rewriter: transform.TransformRewriter,
        results: transform.TransformResults,
        state: transform.TransformState,
    ) -> transform.DiagnosedSilenceableFailure:
        """Rewrites the payload, one operation after the other."""
        made: list[ir.Operation] = []
        for target in state.get_payload_ops(op.operands[0]):
            with ir.InsertionPoint(target), target.location:
                made += cls.rewrite(op, target, rewriter) or []
        for result in op.results:
            results.set_ops(result, made)
        return transform.DiagnosedSilenceableFailure.Success

    @staticmethod
    def allow_repeated_handle_operands(_op: Any) -> bool:
        """An operation of the payload may not be given twice."""
        return False


class ModifiesPayload(ir.MemoryEffectsOpInterface):
    """The effects of an operation that changes the payload; its handles stay valid."""

    @staticmethod
    def get_effects(op: Any, effects: Any) -> None:
        """Operands are read, results produced."""
        transform.only_reads_handle(op.op_operands, effects)
        transform.produces_handle(op.results, effects)
        transform.modifies_payload(effects)


class OnlyReads(ir.MemoryEffectsOpInterface):
    """The effects of an operation that looks at the payload."""

    @staticmethod
    def get_effects(op: Any, effects: Any) -> None:
        """Operands are read, results produced."""
        transform.only_reads_handle(op.op_operands, effects)
        transform.produces_handle(op.results, effects)
        transform.only_reads_payload(effects)


class ConsumesPayload(ir.MemoryEffectsOpInterface):
    """The effects of an operation that replaces what its first handle holds."""

    @staticmethod
    def get_effects(op: Any, effects: Any) -> None:
        """The operand is no longer valid."""
        transform.consumes_handle(op.op_operands, effects)
        transform.modifies_payload(effects)
