"""The verb of kernels that are built by hand: how they are cut up is written on the operation."""

from dataclasses import asdict

from torch_mlir import ir
from torch_mlir.dialects import transform
from torch_mlir.dialects.transform import structured

from llmc.dialects.attributes import i64
from llmc.pipelines.kernels.attention_cuts import Cut, attribute_of
from llmc.pipelines.schedules.handles import Handle, any_op, verb


@verb
def cut(payload: Handle, names: tuple[str, ...], kernel: str, how: Cut) -> None:
    """Has `kernel`, which computes the operations called `names`, cut up its work so."""
    numbers = ir.DictAttr.get({key: i64(value) for key, value in asdict(how).items()})
    parameters = transform.ParamConstantOp(transform.AnyParamType.get(), numbers)
    found = structured.MatchOp.match_op_names(any_op(), payload.value, names)
    transform.AnnotateOp(found.results_, attribute_of(kernel), param=parameters)
