"""Functions that are kernels, made once for all the places where they are called."""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.kernels.marks import KIND, RESULT
from llmc.pipelines.rewriting.functions import callee, set_type
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find, walk

EXPERT_MATVEC, EXPERT_MATMUL = "quantized_expert_matvec", "quantized_expert_matmul"
PANEL_EXPERT_MATVEC, PANEL_EXPERT_MATMUL = "panel_expert_matvec", "panel_expert_matmul"
OVER_EXPERTS = EXPERT_MATVEC, EXPERT_MATMUL, PANEL_EXPERT_MATVEC, PANEL_EXPERT_MATMUL
"""The kinds of kernels that are a loop over experts, or rows of them, before any schedule."""


def kind_of(function: func.FuncOp) -> str | None:
    """What kind of kernel a function is marked as; None where it is not."""
    kind = function.attributes.get(KIND)
    return kind.value if isinstance(kind, ir.StringAttr) else None


def is_distributed(kernel: func.FuncOp) -> bool:
    """Whether a schedule has distributed the kernel over workgroups.

    One over experts is a grid before: its schedule leaves nothing that computes the result whole.
    """
    is_over_experts = kind_of(kernel) in OVER_EXPERTS
    if is_over_experts and any(RESULT in op.attributes for op in walk(kernel.operation)):
        return False
    return bool(find(kernel.operation, "scf.forall"))


def call_of_row(row: ir.Value, symbols: ir.SymbolTable) -> func.CallOp | None:
    """The call of a distributed kernel whose one result, its last dimensions merged, is `row`."""
    reshape = made_by(row, "tensor.collapse_shape")
    call = reshape and made_by(reshape.operands[0], "func.call")
    if call is None or len(call.results) != 1:
        return None
    if row.type.shape[0] != call.results[0].type.shape[0]:
        return None
    kernel = symbols[callee(call)]
    return call.opview if kind_of(kernel) is not None and is_distributed(kernel) else None


class KernelFunctions:
    """The kernels of a module that are made here; those of one text are one."""

    def __init__(self, module: ir.Module) -> None:
        self.symbols = ir.SymbolTable(module.operation)
        self.end = ir.InsertionPoint(module.body)
        self.names: dict[str, str] = {}

    def call(
        self,
        kind: str,
        operands: Sequence[ir.Value],
        build: Callable[..., Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Calls, here, a private function marked `llmc.kernel = kind`; returns its results.

        `build(*arguments)` writes its body, for arguments of the operands' types, and returns what
        it returns.
        """
        with self.end, ir.Location.current:
            function = func.FuncOp(
                "kernel", ([value.type for value in operands], []), visibility="private"
            )
        function.attributes[KIND] = ir.StringAttr.get(kind)
        with ir.InsertionPoint(function.add_entry_block()):
            returned = list(build(*function.arguments))
            func.ReturnOp(returned)
        types = [value.type for value in returned]
        set_type(function, types)
        name = self._shared(kind, function)
        return list(func.CallOp(types, name, list(operands)).results)

    def _shared(self, kind: str, function: func.FuncOp) -> str:
        """The name of a function of that text; `function` is erased where there is one."""
        # In a form that has MLIR neither verify the whole module nor look for aliases in all of it.
        text = function.operation.get_asm(print_generic_op_form=True, use_local_scope=True)
        if text in self.names:
            function.operation.erase()
        else:
            self.names[text] = self._free_name(kind)
            function.attributes["sym_name"] = ir.StringAttr.get(self.names[text])
            self.symbols.insert(function)
        return self.names[text]

    def _free_name(self, kind: str) -> str:
        number = 0
        while f"{kind}_{number}" in self.symbols:
            number += 1
        return f"{kind}_{number}"
