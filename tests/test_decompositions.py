"""Programs are decomposed together as they are one by one."""

import torch
from torch import nn
from torch.export import ExportedProgram

from llmc.frontend.decompositions import decomposed_alike, decompositions


class _Mixed(nn.Module):
    """Composite operations, and others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.silu(self.norm(self.linear(x)))
        rows, columns = (y @ x.mT).chunk(2, dim=-1)
        return torch.where(rows > columns, rows, columns.softmax(-1))


def _program(width: int) -> ExportedProgram:
    return torch.export.export(_Mixed(width), (torch.zeros(3, 4, width),))


def _code(program: ExportedProgram) -> str:
    return program.run_decompositions(decompositions()).graph_module.code


def test_programs_are_decomposed_alike():
    linear = torch.ops.aten.linear.default
    programs = [_program(width) for width in (8, 16)]
    before = dict(linear.py_kernels)
    one_by_one = [_code(program) for program in programs]
    with decomposed_alike():
        together = [_code(program) for program in programs]
        assert dict(linear.py_kernels) != before
    assert together == one_by_one
    assert dict(linear.py_kernels) == before
