"""What can be chosen about a compilation. Needs no PyTorch."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from llmc.runtime.errors import UserError

BLOCK_DTYPES = ("q4_0", "q4_1", "q5_0", "q5_1", "q6_g16", "q8_0", "int4_g64", "int4_g128")
DTYPES = ("f32", "f16", "bf16", *BLOCK_DTYPES, "as-is")
KV_DTYPES = ("auto", "f32", "f16", "q8_0")
# Without --context: what a chat rarely exceeds. A KV cache takes up memory only as it fills.
DEFAULT_CONTEXT = 8192

# Called with the name of a stage; what it returns is entered around that stage.
Progress = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `dtype` is the type that matrices are stored in. With f32, f16, bf16 arithmetic is in float32;
    with q4_0, q4_1, q5_0, q5_1, q8_0 the matrices of linear layers are blocks of 32 values, with
    q6_g16, int4_g64, int4_g128 of 16, 64, 128, multiplied by activations rounded to 8 bits.
    `as-is` keeps 16-bit weights and such blocks, or groups of GPTQ and AWQ, as the checkpoint has
    them, and the integers of some other blocks (`frontend/gguf_blocks.py`); of all other quantised
    formats it makes q8_0. `kv_dtype` is the type of the KV cache: auto is f32 for weights in f32,
    f16 for those in 16 bits, and q8_0 for blocks. `context` bounds the tokens of a sequence.
    `layers` keeps only the first so many. `grid`, such as `dp=2,tp=2`, is of the ranks that run the
    model together, and `plan` a file that says how it is split among them; with `overlap` they
    compute one half of a prompt while they exchange the other. `no_tuning` leaves out what
    `llmc tune` found on this machine.
    """

    target: str = "cpu"
    dtype: str = "f32"
    kv_dtype: str = "auto"
    context: int | None = None
    layers: int | None = None
    grid: str = ""
    plan: str = ""
    overlap: bool = False
    no_tuning: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UserError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if self.kv_dtype not in KV_DTYPES:
            raise UserError(
                f"kv_dtype must be one of {', '.join(KV_DTYPES)}, not {self.kv_dtype!r}"
            )
        if self.overlap and not (self.grid or self.plan):
            raise UserError("overlap is of what several ranks do: give a grid")
        for name in ("context", "layers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
