"""Documented examples are valid; mangled ones are refused in words that name what is wrong, or
else can be lowered."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc import dialects
from llmc.dialects.declarations import SEGMENTS
from llmc.dialects.documentation import example_of
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.walks import find

WRONG_TYPES = (
    "f32",
    "i64",
    "memref<4xf32>",
    "!llmc.q4_0",
    "tensor<*xf32>",
    "tensor<f32>",
    "tensor<?xi64>",
    "tensor<3x5xf64>",
    "tensor<?x?x?xf32>",
    "tensor<?x?x?x?xf32>",
    "tensor<?x?x?x?x?xf16>",
    "tensor<2x3x5x7xcomplex<f32>>",
    "tensor<0x0x0xf16>",
    "tensor<1536x18x!llmc.q8_0>",
)
WRONG_EXTENTS = ("0", "1", "7", "?")
WRONG_ELEMENTS = ("f16", "f64", "f8E4M3FN", "i1", "i8", "i64", "si64", "ui8", "index", "!llmc.q4_0")
INTEGERS = ("true", "-1 : i64", "0 : i64", "3 : i8", "2 : si64", "1 : index", "5000000000 : i64")
FLOATS = ("0.0", "-1.0", "1.0 : f32", "0x7FF0000000000000 : f64", "0x7FF8000000000000 : f64")
EXTREMES = ("1.0e300", "1.0e-300", f"{2**100} : i128")
OTHERS = (
    "unit",
    '"text"',
    "[]",
    "[1]",
    '[""]',
    "@f",
    "f32",
    "array<i32: 1, 1, -1>",
    "array<i64: 1>",
)
WRONG_ATTRIBUTES = (*INTEGERS, *FLOATS, *EXTREMES, *OTHERS)


@dataclass(frozen=True)
class Generic:
    """An operation in its generic form, taken apart."""

    name: str
    operands: tuple[str, ...]
    attributes: dict[str, str]
    results: tuple[str, ...]

    @property
    def module(self) -> str:
        """A function that holds it, with its operands as arguments."""
        names = [f"%{number}" for number in range(len(self.operands))]
        arguments = ", ".join(map("{}: {}".format, names, self.operands))
        attributes = ", ".join(map("{} = {}".format, self.attributes, self.attributes.values()))
        results = ", ".join(self.results)
        prefix = f"%r:{len(self.results)} = " if self.results else ""
        return f"""func.func @f({arguments}) {{
          {prefix}"{self.name}"({", ".join(names)}) {{{attributes}}}
            : ({", ".join(self.operands)}) -> ({results})
          return
        }}"""


_KEYS, _VALUES = (f"tensor<4x?x3x?x2x!llmc.q8_0_{name}>" for name in ("keys", "values"))
_ATTENTION = {"scale": "0.5 : f64", "window": "0 : i64", "softcap": "0.0 : f64"}
_PLAIN_ROWS = dict.fromkeys(
    ("query_offset", "key_offset", "value_offset", "head_stride", "interleaved"), "0 : i64"
)

# Forms of operations on caches that hold cells.
CELL_FORMS = (
    Generic(
        "llmc.cache_append",
        (_KEYS, "tensor<1x3x?x64xf32>", "index", "index", "index"),
        {},
        (_KEYS,),
    ),
    Generic(
        "llmc.cache_read",
        (_VALUES, "index", "index", "index", "index"),
        {},
        ("tensor<1x3x?x64xf32>",),
    ),
    Generic(
        "llmc.cached_attention",
        ("tensor<1x9x?x64xf32>", _KEYS, _VALUES, "tensor<1xi64>", "index", "index", "index"),
        _ATTENTION,
        ("tensor<1x9x?x64xf32>",),
    ),
    Generic(
        "llmc.attention_part",
        ("tensor<1x9x?x64xf32>", _KEYS, _VALUES, "tensor<1xi64>", "index", "index", "index"),
        {"first": "1 : i64", "step": "2 : i64", **_ATTENTION},
        ("tensor<1x9x?x65xf32>",),
    ),
    Generic(
        "llmc.decode_attention",
        (
            *("tensor<?x576xf32>", "tensor<?x192xf32>", "tensor<?x192xf32>"),
            *(_KEYS, _VALUES, "tensor<?xi64>", "index", "index", "index"),
        ),
        {
            "operandSegmentSizes": "array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>",
            **_PLAIN_ROWS,
            **dict.fromkeys(("key_channels", "value_channels"), "64 : i64"),
            **dict.fromkeys(("norm_epsilon", "norm_offset"), "0.0 : f64"),
            **_ATTENTION,
        },
        ("tensor<?x576xf32>", _KEYS, _VALUES),
    ),
)

# Forms of operations that their examples do not show.
FORMS = (
    Generic(
        "llmc.quantized_linear",
        ("tensor<1x?x64xi8>", "tensor<8x2x!llmc.q4_1>", "tensor<1x?x2xf32>", "tensor<8xf32>"),
        {"operandSegmentSizes": "array<i32: 1, 1, 1, 1>"},
        ("tensor<1x?x8xf32>",),
    ),
    Generic(
        "llmc.embedding",
        ("tensor<2x?xi32>", "tensor<9x5xf16>"),
        {},
        ("tensor<2x?x5xf32>",),
    ),
    Generic(
        "llmc.take_rows",
        ("tensor<?xi32>", "tensor<?x2x3x5x7xi8>"),
        {"top_k": "1 : i64"},
        ("tensor<?x2x3x5x7xi8>",),
    ),
    Generic("llmc.quantize", ("tensor<?x?xf32>",), {}, ("tensor<?x?x!llmc.q4_0>",)),
    Generic(
        "llmc.quantize_rows",
        ("tensor<2x?xf32>",),
        {"group": "32 : i64"},
        ("tensor<2x?xi8>", "tensor<2x?xf32>"),
    ),
    Generic(
        "llmc.linear",
        ("tensor<2x3x6xf32>", "tensor<6x5xf16>", "tensor<5xf32>"),
        {"operandSegmentSizes": "array<i32: 1, 1, 1>", "transposed": "1 : i64"},
        ("tensor<2x3x5xf32>",),
    ),
    Generic(
        "llmc.packed_expert_linear",
        ("tensor<3x6xf32>", "tensor<6xi64>", "tensor<8x2x6x4xf16>"),
        {"top_k": "2 : i64"},
        ("tensor<6x7xf32>",),
    ),
    Generic(
        "llmc.expert_linear",
        ("tensor<3x6xf32>", "tensor<6xi64>", "tensor<8x7x6xf16>"),
        {"top_k": "2 : i64", "transposed": "0 : i64"},
        ("tensor<?x7xf32>",),
    ),
    Generic(
        "llmc.combine_experts",
        ("tensor<7x5xf32>", "tensor<?x7xf32>"),
        {},
        ("tensor<1x5xf32>",),
    ),
    Generic(
        "llmc.combine_experts",
        ("tensor<8x5xf32>", "tensor<?x8xf32>"),
        {},
        ("tensor<?x5xf32>",),
    ),
    *CELL_FORMS,
    Generic(
        "llmc.decode_attention",
        (
            *("tensor<?x24xf32>", "tensor<?x8xf32>", "tensor<?x4xf32>"),
            *("tensor<5x?x1x?x8xf32>", "tensor<5x?x1x?x4xf16>", "tensor<?xi64>"),
            *("index", "index", "index", "tensor<5x8xf32>", "tensor<5x8xf32>"),
        ),
        {
            "operandSegmentSizes": "array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1>",
            **_PLAIN_ROWS,
            **{"key_channels": "8 : i64", "value_channels": "4 : i64"},
            **dict.fromkeys(("norm_epsilon", "norm_offset"), "0.0 : f64"),
            **_ATTENTION,
        },
        ("tensor<?x12xf32>", "tensor<5x?x1x?x8xf32>", "tensor<5x?x1x?x4xf16>"),
    ),
)


@pytest.fixture(scope="module")
def context() -> ir.Context:
    context = ir.Context()
    dialects.load(context)
    return context


def example_text(op: type) -> str:
    """The example in an operation's description, in a function that has its operands."""
    text = " ".join(example_of(op).splitlines())
    names = re.search(r'"llmc\.\w+"\((.*?)\)', text)[1].split(", ")
    types = re.search(r": \(([^()]*)\)\s+->", text)[1].split(", ")
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True) if n)
    return f"func.func @example({arguments}) {{ {text} return }}"


def example(op: type, context: ir.Context) -> Generic:
    module = ir.Module.parse(example_text(op), context)
    (parsed,) = find(module.operation, op.OPERATION_NAME)
    return Generic(
        parsed.name,
        tuple(str(operand.type) for operand in parsed.operands),
        {name: str(attribute) for name, attribute in parsed.attributes.items()},
        tuple(str(result.type) for result in parsed.results),
    )


def mangled(op: Generic) -> Iterator[Generic]:
    """`op` with one thing about it changed."""
    for kind in ("operands", "results"):
        types = getattr(op, kind)
        for number in range(len(types)):
            for wrong in (*WRONG_TYPES, *altered(types[number])):
                yield replace(op, **{kind: (*types[:number], wrong, *types[number + 1 :])})
        for number in range(len(types)):
            yield replace(op, **{kind: (*types[:number], *types[number + 1 :])})
        yield replace(op, **{kind: (*types, "tensor<4xf32>")})
    for name in op.attributes:
        yield replace(op, attributes={n: a for n, a in op.attributes.items() if n != name})
        for wrong in WRONG_ATTRIBUTES:
            yield replace(op, attributes=op.attributes | {name: wrong})


def altered(type_: str) -> Iterator[str]:
    """A type of tensor with another extent or another element type."""
    if not type_.startswith("tensor<"):
        return
    *extents, element = type_.removeprefix("tensor<").removesuffix(">").split("x")
    for dim in range(len(extents)):
        for wrong in WRONG_EXTENTS:
            yield f"tensor<{'x'.join([*extents[:dim], wrong, *extents[dim + 1 :], element])}>"
    for wrong in WRONG_ELEMENTS:
        yield f"tensor<{'x'.join([*extents, wrong])}>"


def names_what_is_wrong(form: type | Generic, error: str) -> bool:
    """Whether an error of a verifier names an operand, a result or an attribute."""
    name = form.name if isinstance(form, Generic) else form.OPERATION_NAME
    op = dialects.OPERATIONS[name]
    fault = error.partition("see current operation")[0].partition(f"'{name}' op ")[2]
    named = any(f"'{field}'" in fault for field in (*(f.name for f in op._fields), SEGMENTS))
    return named or fault.startswith(("result must", "must have 0 operands"))


OPERATIONS = pytest.mark.parametrize("op", dialects.OPERATIONS.values(), ids=dialects.OPERATIONS)


@OPERATIONS
def test_example_is_valid_and_reads_back(op, context):
    parsed = ir.Module.parse(example_text(op), context)
    assert op.OPERATION_NAME in str(parsed)
    assert str(ir.Module.parse(str(parsed), context)) == str(parsed)


@pytest.mark.parametrize(
    "form", [*dialects.OPERATIONS.values(), *FORMS], ids=lambda form: getattr(form, "name", None)
)
def test_what_is_wrong_is_named_and_all_else_can_be_lowered(form, context):
    refused = 0
    right = form if isinstance(form, Generic) else example(form, context)
    assert ir.Module.parse(right.module, context)
    for case in mangled(right):
        try:
            module = ir.Module.parse(case.module, context)
        except ir.MLIRError as error:
            if "invalid tensor element type" not in str(error):  # no tensor of MLIR's
                assert names_what_is_wrong(form, str(error)), f"{error}\n{case.module}"
            refused += 1
            continue
        with context, ir.Location.unknown():
            LowerLlmc().apply(module)
            assert module.operation.verify(), case.module
    assert refused


@OPERATIONS
def test_a_wrong_operand_is_named(op, context):
    right = example(op, context)
    names = [field.name for field in op._fields if isinstance(field, ext.OperandDef)]
    for number, (name, type_) in enumerate(zip(names, right.operands, strict=False)):
        if not type_.startswith("tensor"):
            continue
        for wrong in ("f32", "tensor<f32>"):
            operands = (*right.operands[:number], wrong, *right.operands[number + 1 :])
            with pytest.raises(ir.MLIRError, match=f"'{op.OPERATION_NAME}' op .*'{name}'"):
                ir.Module.parse(replace(right, operands=operands).module, context)
