"""`llmc.parameter`: a weight of the model, by name."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import require, static, tensor_of, verified
from llmc.dialects.llmc import Operation

STORED = "llmc.stored"
"""The attribute that says which format of blocks the model stores each weight in."""


class ParameterOp(Operation, name="parameter", traits=[ext.Pure]):
    """A named weight. In a layer's function `sources` holds one name for each layer it serves.

    The weights themselves stay outside the program. Has no lowering and computes nothing:
    `bind-parameters` ties the names to globals. The type is that of the numbers; where the model
    has all of the weights in blocks, `llmc.stored = ["q4_1"]` names the format of each.

        %w = "llmc.parameter"() {sources = ["model.norm.weight"]} : () -> tensor<576xf32>
    """

    sources: ir.ArrayAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that there is a name and a static shape."""
        names = list(self.sources)
        require(len(names) > 0, "attribute 'sources' must name a parameter")
        for name in names:
            require(isinstance(name, ir.StringAttr), "attribute 'sources' must hold strings")
        tensor_of(self.out, "out")
        static("out", self.out)
