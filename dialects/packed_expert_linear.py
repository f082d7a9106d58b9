"""`llmc.packed_expert_linear`: an expert linear layer whose weight is laid out for its kernel."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import floats, integers, same, tensor_of, verified
from llmc.dialects.expert_linear import check_rows
from llmc.dialects.llmc import Operation
