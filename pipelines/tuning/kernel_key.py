"""What the best schedule of a kernel depends on."""

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.alone import copied_alone
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.database import Key
from llmc.pipelines.tuning.versions import kernel_versions, short_digest


def kernel_key(kind: str, kernel: func.FuncOp, target: CPUTarget) -> Key:
    """The key of a kernel that no schedule has touched; its name is no part of it."""
    facts = target.facts
    features = short_digest(",".join(facts.features))
    return Key(
        kind=kind,
        shape=str(kernel.type),
        code=short_digest(_text(kernel)),
        target=f"{facts.arch} {facts.name} {features}",
        versions=kernel_versions(),
    )


def _text(kernel: func.FuncOp) -> str:
    module = copied_alone(kernel)
    (copy,) = module.body
    copy.attributes["sym_name"] = ir.StringAttr.get("kernel")
    return module.operation.get_asm()
