"""`--verify-roundtrip`: what is printed, as text and as bytecode, must be read back as it was."""

from io import BytesIO

from torch_mlir import ir

from llmc.pipelines.driver.diagnostics import message_of
from llmc.pipelines.driver.printing import PrintingFlags
from llmc.pipelines.errors import fail


def verify_roundtrip(op: ir.Operation) -> None:
    """Emits an error at `op` and raises PassError where the IR does not survive."""
    bytecode = BytesIO()
    op.write_bytecode(bytecode)
    generic = PrintingFlags(generic=True)
    for form, content in (
        ("text", PrintingFlags(debug_info=True).text(op)),
        ("generic text", PrintingFlags(debug_info=True, generic=True).text(op)),
        ("bytecode", bytecode.getvalue()),
    ):
        if generic.encoded(_read_back(op, content, form)) != generic.encoded(op):
            fail(op, f"is read back from {form} as something else")


def _read_back(op: ir.Operation, content: str | bytes, form: str) -> ir.Operation:
    told: list[str] = []

    def listen(diagnostic: ir.Diagnostic) -> bool:
        told.append(message_of(diagnostic))
        return True

    try:
        with op.context.attach_diagnostic_handler(listen):
            module = ir.Module.parse(content, op.context)
    except ir.MLIRError:
        fail(op, f"cannot be read back from {form}: {next(iter(told), 'no reason is told')}")
    if op.name == module.operation.name:
        return module.operation
    return next(iter(module.body)).operation  # in the module that the parser puts around it
