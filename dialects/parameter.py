"""`llmc.parameter`: a weight of the model, by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import require, static, tensor_of, verified
from llmc.dialects.llmc import Operation

STORED = "llmc.stored"
"""The attribute that says which format of blocks the model stores each weight in."""


class ParameterOp(Operation, name="parameter", traits=[ext.Pure]):
    """A named weight. In a layer's function `sources` holds one name for each layer it serves.

    Has no lowering: the weights stay outside the program, where linalg has no names for them.
    `bind-parameters` makes a global of it, or of what is computed from it alone, and the archive of
    weights holds the value. The type is that of the numbers; where the model has all of the weights
    in blocks, `llmc.stored = ["q4_1"]` names the format of each.

        %w = "llmc.parameter"() {sources = ["model.norm.weight"]} : () -> tensor<576xf32>
    """

    sources: ir.ArrayAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that there is a name and a static shape, and formats for all names or none."""
        names = list(self.sources)
        require(len(names) > 0, "must name a parameter, but is empty", "sources")
        for name in names:
            is_name = isinstance(name, ir.StringAttr) and name.value
            require(is_name, f"must hold names, but has {name}", "sources")
        tensor_of(self.out, "out")
        static("out", self.out)
        if STORED in self.attributes:
            formats, listed = self.attributes[STORED], ", ".join(FORMATS)
            is_right = (
                isinstance(formats, ir.ArrayAttr)
                and len(formats) == len(names)
                and all(isinstance(f, ir.StringAttr) and f.value in FORMATS for f in formats)
            )
            fault = f"must name one of {listed} for each of {len(names)}, but is {formats}"
            require(is_right, fault, STORED)

    @staticmethod
    def reference(
        sources: Sequence[str], weights: Mapping[str, np.ndarray], layer: int = 0
    ) -> np.ndarray:
        """The weight named for the layer of that number among those that the function serves."""
        return weights[sources[layer]]


def stored_unit(weight: ir.Value) -> int:
    """How many neighbours in a row of `weight` the model stores together: 1 but for blocks."""
    formats = None if isinstance(weight.owner, ir.Block) else weight.owner.attributes.get(STORED)
    return max((FORMATS[ir.StringAttr(name).value].values for name in formats or ()), default=1)
