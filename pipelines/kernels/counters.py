"""Counters that a kernel finds at zero and leaves at zero, so that nobody clears them."""

from torch_mlir import ir


class Counters:
    """`count` integers of the module, shared by all dispatches of one kind."""

    def __init__(self, module: ir.Operation, symbol: str, count: int, bits: int) -> None:
        """Makes the global that holds them, where there is none yet."""
        integer = ir.IntegerType.get_signless(bits)
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
