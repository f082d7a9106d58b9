"""Runs llmc operations one by one: each in a function of its own, all in one compiled module."""

from collections.abc import Sequence
from dataclasses import dataclass

import iree.compiler
import iree.runtime
import numpy as np
import torch
from torch import Tensor
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.targets.cpu import CPUTarget

_ELEMENTS = {torch.float32: "f32", torch.float16: "f16", torch.int64: "i64"}


@dataclass(frozen=True)
class Operand:
    """A tensor and a letter for each of its dimensions, as in `btk`; or an index, without."""

    value: Tensor | int
    letters: str = ""

    def type(self, dynamic: str) -> str:
        if isinstance(self.value, int):
            return "index"
        dims = zip(self.letters, self.value.shape, strict=True)
        shape = "".join(f"{'?' if letter in dynamic else size}x" for letter, size in dims)
        return f"tensor<{shape}{_ELEMENTS[self.value.dtype]}>"


@dataclass(frozen=True)
class Case:
    """An operation on some operands and what it must give.

    The dimensions with letters in `dynamic` are dynamic in its types.
    """

    name: str
    op: str
    operands: Sequence[Operand]
    attributes: str
    expected: Operand
    dynamic: str = ""
    tolerance: float = 1e-5

    @property
    def text(self) -> str:
        """A function of tensors, and of i64 in the place of indices."""
        types = [operand.type(self.dynamic) for operand in self.operands]
        arguments, casts, names = [], [], []
        for number, type_ in enumerate(types):
            arguments.append(f"%a{number}: {'i64' if type_ == 'index' else type_}")
            names.append(f"%i{number}" if type_ == "index" else f"%a{number}")
            if type_ == "index":
                casts.append(f"%i{number} = arith.index_cast %a{number} : i64 to index")
        result = self.expected.type(self.dynamic)
        return f"""
            func.func @{self.name}({", ".join(arguments)}) -> {result} {{
              {" ".join(casts)}
              %r = "{self.op}"({", ".join(names)}) {{{self.attributes}}}
                 : ({", ".join(types)}) -> {result}
              return %r : {result}
            }}"""


def check(cases: Sequence[Case]) -> None:
    """Lowers, compiles and runs `cases`; AssertionError where one gives something else."""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse("".join(case.text for case in cases), context)
    run((LowerLlmc(), "canonicalize,cse"), module)
    code = iree.compiler.compile_str(str(module), extra_args=CPUTarget().flags)
    config = iree.runtime.Config("local-sync")
    system = iree.runtime.SystemContext(config=config)
    system.add_vm_module(iree.runtime.VmModule.copy_buffer(system.instance, code))
    for case in cases:
        arguments = [
            operand.value if isinstance(operand.value, int) else operand.value.numpy()
            for operand in case.operands
        ]
        actual = system.modules.module[case.name](*arguments).to_host()
        np.testing.assert_allclose(
            actual,
            case.expected.value.numpy(),
            rtol=0,
            atol=case.tolerance,
            err_msg=case.name,
            strict=True,
        )
