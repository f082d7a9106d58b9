"""Counters that a kernel finds at zero and leaves at zero, so that nobody clears them."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant


class Counters:
    """`count` integers of the module, shared by all dispatches of one kind."""

    def __init__(self, module: ir.Operation, symbol: str, count: int, bits: int) -> None:
        """Makes the global that holds them, where there is none yet."""
        integer = T.i(bits)
        self.type = ir.RankedTensorType.get([count], integer)
        self.reference = {"global": ir.FlatSymbolRefAttr.get(symbol)}
        if symbol not in ir.SymbolTable(module):
            zeros = ir.DenseElementsAttr.get_splat(self.type, ir.IntegerAttr.get(integer, 0))
            with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
                ir.Operation.create(
                    "util.global",
                    attributes={
                        "sym_name": ir.StringAttr.get(symbol),
                        "sym_visibility": ir.StringAttr.get("private"),
                        "type": ir.TypeAttr.get(self.type),
                        "initial_value": zeros,
                        "is_mutable": ir.UnitAttr.get(),
                    },
                )

    def load(self) -> ir.Value:
        """The counters, to be updated."""
        load = ir.Operation.create(
            "util.global.load", results=[self.type], attributes=self.reference
        )
        return load.result

    def store(self, value: ir.Value) -> None:
        """Keeps them for the next dispatch."""
        ir.Operation.create("util.global.store", operands=[value], attributes=self.reference)


def is_last_done(done: ir.Value, place: ir.Value, others: ir.Value) -> ir.Value:
    """Counts one that is done at `place` of i32 `done`; whether i32 `others` were before it.

    That one finds what they wrote, and leaves the counter at zero.
    """
    i32 = done.type.element_type
    # Acquires and releases: what the others wrote before they counted is seen after.
    before = memref.atomic_rmw(arith.AtomicRMWKind.addi, constant(1, i32), done, [place])
    is_last = arith.cmpi(arith.CmpIPredicate.eq, before, others)
    with ir.InsertionPoint(scf.IfOp(is_last).then_block):
        memref.store(constant(0, i32), done, [place])
        scf.YieldOp([])
    return is_last
