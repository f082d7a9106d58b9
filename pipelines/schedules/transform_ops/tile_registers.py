"""AMX: registers that hold tiles, and an instruction that multiplies two tiles of bytes.

A tile has up to 16 rows of 64 bytes. The instruction adds to a tile of sums, of 32 bits each, the
products of a tile of rows of activations and one of weights, whose rows are words of four bytes of
16 columns: the very order in which panels hold them. Intel, "Architecture Instruction Set
Extensions Programming Reference", chapter 3.
"""

from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.intrinsics import intrinsic_effect

ROWS = 16
"""Rows of activations that are multiplied at once, and columns of weights."""

ROW_BYTES = 64
"""The most bytes of a row of a tile."""

# Linux's call by which a process asks for the registers, as arch/x86/include/uapi/asm/prctl.h has
# it, and the number of their state.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA = 158, 0x1023, 18


@dataclass(frozen=True)
class _Register:
    """A register, by its number, and the rows and bytes of a row of its tile."""

    number: int
    rows: int
    bytes: int


_SUMS = _Register(0, ROWS, ROW_BYTES)
# By the bytes of a row of activations, registers of these and of weights.
_FACTORS = {
    bytes_: (_Register(first, ROWS, bytes_), _Register(first + 1, bytes_ // WORD, ROW_BYTES))
    for first, bytes_ in ((1, 32), (3, 64))
}
_REGISTERS = (_SUMS, *(register for pair in _FACTORS.values() for register in pair))


def configure() -> None:
    """Builds what a thread does before it uses the registers."""
    i64 = T.i64()
    operands = [constant(each, i64) for each in (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA)]
    constraints = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
    # The process asks here and not in the runtime, so that the module runs in any program.
    llvm.inline_asm(i64, operands, "syscall", constraints, has_side_effects=True)
    layout = bytearray(ROW_BYTES)
    layout[0] = 1  # the only palette there is
    for register in _REGISTERS:
        layout[16 + 2 * register.number] = register.bytes
        layout[48 + register.number] = register.rows
    type_ = ir.VectorType.get([ROW_BYTES], T.i8())
    value = ir.DenseElementsAttr.get(memoryview(layout), type=type_)
    buffer = buffer_of_rows([1, ROW_BYTES], T.i8())
    vector.store(arith.ConstantOp(type_, value).result, buffer, [index(0), index(0)])
    intrinsic_effect("llvm.x86.ldtilecfg", Bytes.of(buffer, 0).pointer)


def release() -> None:
    """Builds what a thread does when it no longer uses the registers."""
    intrinsic_effect("llvm.x86.tilerelease")


def buffer_of_rows(shape: list[int], element: ir.Type) -> ir.Value:
    """A buffer on the workgroup's stack, of rows that begin at a multiple of `ROW_BYTES`."""
    block = ir.InsertionPoint.current.block
    while not isinstance(block.owner.opview, scf.ForallOp):
        block = block.owner.operation.block
    with ir.InsertionPoint.at_block_begin(block):
        size = prod(shape) * element.width // 8 + ROW_BYTES
        # IREE keeps no alignment of a buffer, and what lies across cache lines is slow to load.
        room = memref.alloca(ir.MemRefType.get([size], T.i8()), [], [])
        address = memref.extract_aligned_pointer_as_index(room)
        behind = arith.andi(arith.subi(index(0), address), index(ROW_BYTES - 1))
        return memref.view(ir.MemRefType.get(shape, element), room, behind, [])


@dataclass(frozen=True)
class Bytes:
    """Bytes in memory from `address` on, of rows that are `stride` apart, both i64."""

    address: ir.Value
    stride: ir.Value

    @classmethod
    def of(cls, buffer: ir.Value, rows: int) -> "Bytes":
        """Those of a buffer whose dimension `rows` are the rows."""
        i64 = T.i64()
        _, offset, *sizes_and_strides = memref.extract_strided_metadata(buffer)
        strides = sizes_and_strides[buffer.type.rank :]
        base = memref.extract_aligned_pointer_as_index(buffer)
        size = constant(buffer.type.element_type.width // 8, i64)
        offset, stride = (
            arith.muli(arith.index_cast(i64, each), size) for each in (offset, strides[rows])
        )
        return cls(arith.addi(arith.index_cast(i64, base), offset), stride)

    def after(self, bytes_: int) -> "Bytes":
        """Those that begin `bytes_` later."""
        return Bytes(arith.addi(self.address, constant(bytes_, self.address.type)), self.stride)

    @property
    def pointer(self) -> ir.Value:
        """To the first one."""
        return llvm.inttoptr(llvm.PointerType.get(), self.address)


def multiply(activations: Bytes, weights: Bytes, length: int, signed: bool, sums: Bytes) -> None:
    """Writes the sums of `ROWS` rows, which have `ROWS` numbers of 32 bits each.

    Rows of `activations` are `length` signed bytes, those of `weights` words of `ROWS` columns,
    `signed` or not.
    """
    chunk = min(length, ROW_BYTES)
    left, right = _FACTORS[chunk]
    name = "llvm.x86.tdpbssd" if signed else "llvm.x86.tdpbsud"
    intrinsic_effect("llvm.x86.tilezero", _number(_SUMS))
    for start in range(0, length, chunk):
        _load(right, weights.after(start // WORD * ROW_BYTES))
        _load(left, activations.after(start))
        intrinsic_effect(name, *(_number(register) for register in (_SUMS, left, right)))
    intrinsic_effect("llvm.x86.tilestored64", _number(_SUMS), sums.pointer, sums.stride)


def _load(register: _Register, source: Bytes) -> None:
    intrinsic_effect("llvm.x86.tileloadd64", _number(register), source.pointer, source.stride)


def _number(register: _Register) -> ir.Value:
    return llvm.mlir_constant(ir.IntegerAttr.get(T.i8(), register.number))
