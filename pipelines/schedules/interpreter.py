"""Runs transform scripts on payloads."""

from torch_mlir import ir
from torch_mlir.dialects import builtin
from torch_mlir.passmanager import PassManager

_TAG = "transform.target_tag"
_PAYLOAD = "payload"


def apply_script(script: ir.Module, payload: ir.Module) -> None:
    """Does to `payload`, in place, what the sequence `@__transform_main` of `script` says.

    Both are of one context. MLIRError where the script fails; a diagnostic has said where and why,
    and the payload may be half transformed.
    """
    # MLIR's pass, which reports errors as passes do, wants script and payload in one module.
    with payload.context, payload.operation.location:
        both = ir.Module.create()
        both.body.append(script.operation.clone())
        with ir.InsertionPoint(both.body):
            guest = builtin.ModuleOp()
        _copy_attributes(payload.operation, guest.operation)
        guest.attributes[_TAG] = ir.StringAttr.get(_PAYLOAD)
        _move(payload.body, guest.body)
        try:
            pass_ = f"transform-interpreter{{debug-payload-root-tag={_PAYLOAD}}}"
            PassManager.parse(f"builtin.module({pass_})").run(both.operation)
        finally:
            _move(guest.body, payload.body)
            del guest.attributes[_TAG]
            _copy_attributes(guest.operation, payload.operation)


def _copy_attributes(source: ir.Operation, target: ir.Operation) -> None:
    for name in [name for name in target.attributes if name not in source.attributes]:
        del target.attributes[name]
    for name in source.attributes:
        target.attributes[name] = source.attributes[name]


def _move(source: ir.Block, target: ir.Block) -> None:
    for op in list(source):
        target.append(op)
