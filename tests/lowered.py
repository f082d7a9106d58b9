"""Runs llmc operations one by one: each in a function of its own, all in one compiled module."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import iree.runtime
import numpy as np
from torch_mlir import ir

from llmc import dialects
from llmc.dialects import BlocksToBytesOp
from llmc.dialects.blocks import BlockFormat, format_of
from llmc.dialects.cache_cells import CellFormat, cells_of
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from llmc.pipelines.passes.to_iree import ToIREE
from tests.cpu_code import compile_for_cpu

_ELEMENTS = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float16): "f16",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int16): "i16",
    np.dtype(np.int8): "i8",
}


@dataclass(frozen=True)
class Operand:
    """An array and a letter for each of its dimensions, as in `btk`; or an index, without.

    The array may hold blocks or cells.
    """

    value: np.ndarray | int
    letters: str = ""

    def type(self, dynamic: str) -> str:
        if isinstance(self.value, int):
            return "index"
        format_ = _stored_format(self.value)
        element = f"!llmc.{format_.name}" if format_ else _ELEMENTS[self.value.dtype]
        dims = zip(self.letters, self.value.shape, strict=True)
        shape = "".join(f"{'?' if letter in dynamic else size}x" for letter, size in dims)
        return f"tensor<{shape}{element}>"

    @property
    def stored(self) -> np.ndarray | int:
        """What a compiled function takes or gives for it."""
        if isinstance(self.value, int) or not _stored_format(self.value):
            return self.value
        return BlocksToBytesOp.reference(self.value)


def _stored_format(array: np.ndarray) -> BlockFormat | CellFormat | None:
    return format_of(array) or cells_of(array)


@dataclass(frozen=True)
class Case:
    """An operation on some operands and what it must give.

    The dimensions with letters in `dynamic` are dynamic in its types.
    """

    name: str
    op: str
    operands: Sequence[Operand]
    attributes: str
    expected: Operand | Sequence[Operand]
    dynamic: str = ""
    tolerance: float = 1e-5

    def in_both(self, dynamic: str) -> "list[Case]":
        """This case, and once more with the dimensions `dynamic` left open."""
        return [self, replace(self, name=f"{self.name}_dynamic", dynamic=dynamic)]

    @property
    def results(self) -> list[Operand]:
        return [self.expected] if isinstance(self.expected, Operand) else list(self.expected)

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
        results = ", ".join(result.type(self.dynamic) for result in self.results)
        values = ", ".join(f"%r#{number}" for number in range(len(self.results)))
        return f"""
            func.func @{self.name}({", ".join(arguments)}) -> ({results}) {{
              {" ".join(casts)}
              %r:{len(self.results)} = "{self.op}"({", ".join(names)}) {{{self.attributes}}}
                 : ({", ".join(types)}) -> ({results})
              return {values} : {results}
            }}"""


def segments(*present: bool) -> str:
    """The attribute that says which operands are there."""
    return f"operandSegmentSizes = array<i32: {', '.join(str(int(each)) for each in present)}>"


def check(cases: Sequence[Case]) -> None:
    """Lowers, compiles and runs `cases`; AssertionError where one gives something else."""
    functions = compile_text("".join(case.text for case in cases))
    for case in cases:
        found = functions[case.name](*(operand.stored for operand in case.operands))
        found = found if isinstance(found, tuple) else (found,)
        for actual, result in zip(found, case.results, strict=True):
            np.testing.assert_allclose(
                actual.to_host(),
                result.stored,
                rtol=0,
                atol=case.tolerance,
                err_msg=case.name,
                strict=True,
            )


def compile_text(text: str) -> iree.runtime.system_api.BoundModule:
    """The functions of a module of llmc operations, which take blocks as bytes."""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(text, context)
    run((LowerLlmc(), StoreBlocksAsBytes(), "canonicalize,cse", ToIREE()), module)
    code = compile_for_cpu(module)
    config = iree.runtime.Config("local-sync")
    system = iree.runtime.SystemContext(config=config)
    system.add_vm_module(iree.runtime.VmModule.copy_buffer(system.instance, code))
    return system.modules.module
