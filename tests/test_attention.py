"""Attention and its cache compute what their references say, and the torch twin does too."""

import numpy as np
import pytest

from llmc import dialects
from llmc.dialects.cache_cells import KEYS, VALUES
from tests.arrays import Arrays, assert_same, twin
from tests.lowered import Case, Operand, check, compile_text, segments

SCALE = 0.5

ATTENTIONS = {
    "plain": {},
    "grouped": {"groups": 3},
    "window": {"window": 3},
    "softcap": {"softcap": 0.5},
    "values_of_other_width": {"width": 3},
    "past": {"past": 4},
    "decode": {"past": 9, "tokens": 1, "groups": 2},
    "batch": {"past": 5, "start": [0, 3, 5], "tokens": 2},
    "all": {
        "past": 6,
        "start": [0, 5, 2],
        "tokens": 3,
        "groups": 2,
        "window": 4,
        "softcap": 0.7,
        "width": 5,
    },
}


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def attributes(window: int = 0, softcap: float = 0.0) -> str:
    return f"scale = {SCALE}, window = {window} : i64, softcap = {softcap}"


def attention_cases(
    arrays: Arrays,
    name: str,
    tokens: int = 5,
    groups: int = 1,
    width: int = 4,
    past: int = 0,
    start: list[int] | None = None,
    **options,
) -> list[Case]:
    batch, held = len(start or [0]), past + tokens
    query = arrays.uniform(batch, 2 * groups, tokens, 4) * 2
    key, value = arrays.uniform(batch, 2, held, 4) * 2, arrays.uniform(batch, 2, held, width)
    starts = None if start is None else np.array(start)
    case = Case(
        name,
        "llmc.attention",
        [
            Operand(query, "bhtd"),
            Operand(key, "bgsd"),
            Operand(value, "bgse"),
            *([Operand(past)] if past else []),
            *([] if starts is None else [Operand(starts, "b")]),
        ],
        f"{segments(1, 1, 1, past > 0, start is not None)}, {attributes(**options)}",
        Operand(
            dialects.AttentionOp.reference(
                query, key, value, SCALE, **options, past=past, start=starts
            ),
            "bhte",
        ),
    )
    return case.in_both("s" if tokens == 1 else "bts" if batch > 1 else "ts")


def test_attention(arrays):
    cases = (attention_cases(arrays, name, **kind) for name, kind in ATTENTIONS.items())
    check([case for pair in cases for case in pair])


@pytest.mark.parametrize("name", ["plain", "grouped", "window", "softcap", "values_of_other_width"])
def test_the_torch_twin_of_attention_means_the_same(arrays, name):
    kind = {"window": 0, "softcap": 0.0, **ATTENTIONS[name]}
    query = arrays.uniform(2, 2 * kind.pop("groups", 1), 5, 4)
    key, value = arrays.uniform(2, 2, 5, 4), arrays.uniform(2, 2, 5, kind.pop("width", 4))
    expected = dialects.AttentionOp.reference(query, key, value, SCALE, **kind)
    found = twin("attention", query, key, value, SCALE, kind["window"], kind["softcap"])
    assert_same(found, expected)


def test_cached_attention(arrays):
    cases = []
    for number, (start, past, tokens, options) in enumerate(
        [([0], 0, 4, {}), ([2], 3, 1, {"window": 2}), ([0, 4], 5, 3, {"softcap": 0.7})]
    ):
        batch = len(start)
        query = arrays.uniform(batch, 4, tokens, 6)
        keys, values = arrays.uniform(2, 3, 2, 9, 6), arrays.uniform(2, 3, 2, 9, 5)
        layer, sequence, starts = 1, 3 - batch, np.array(start)
        y = dialects.CachedAttentionOp.reference(
            query, keys, values, starts, layer, sequence, past, SCALE, **options
        )
        case = Case(
            f"attend{number}",
            "llmc.cached_attention",
            [
                Operand(query, "bhtd"),
                Operand(keys, "lqgcd"),
                Operand(values, "lqgce"),
                Operand(starts, "b"),
                Operand(layer),
                Operand(sequence),
                Operand(past),
            ],
            attributes(**options),
            Operand(y, "bhte"),
        )
        cases += case.in_both("qct" if tokens > 1 else "qc")
    check(cases)


def test_a_part_of_attention(arrays):
    cases = []
    for number, (start, past, tokens, first, options) in enumerate(
        [([0], 0, 4, 0, {}), ([2], 3, 1, 0, {"window": 3}), ([0, 4], 5, 3, 2, {"softcap": 0.7})]
    ):
        batch = len(start)
        query = arrays.uniform(batch, 4, tokens, 6)
        keys, values = arrays.uniform(2, 3, 2, 4, 6), arrays.uniform(2, 3, 2, 4, 5)
        layer, sequence, starts = 1, 3 - batch, np.array(start)
        y = dialects.AttentionPartOp.reference(
            query, keys, values, starts, layer, sequence, past, first, 3, SCALE, **options
        )
        case = Case(
            f"attend{number}",
            "llmc.attention_part",
            [
                Operand(query, "bhtd"),
                Operand(keys, "lqgcd"),
                Operand(values, "lqgce"),
                Operand(starts, "b"),
                Operand(layer),
                Operand(sequence),
                Operand(past),
            ],
            f"first = {first}, step = 3, {attributes(**options)}",
            Operand(y, "bhtf"),
        )
        cases += case.in_both("qct" if tokens > 1 else "qc")
    check(cases)


def test_decode_attention(arrays):
    cases = []
    normed = {"norm_epsilon": 1e-3, "norm_offset": 0.5}
    for number, (start, past, rotated, norm, stride, part, options) in enumerate(
        [
            ([0], 0, 0, {}, 0, {}, {}),
            ([2], 3, 6, normed, 0, {}, {"window": 2}),
            ([0, 4], 5, 4, {}, 0, {}, {"softcap": 0.7}),
            ([1, 2], 5, 0, normed, 0, {}, {}),
            ([1, 2], 5, 4, {}, 11, {}, {}),
            ([0, 4], 5, 6, normed, 0, {"first": 2, "step": 3}, {"softcap": 0.7}),
            ([2], 6, 0, {}, 0, {"first": 1, "step": 2}, {"window": 3}),
        ]
    ):
        batch = len(start)
        # 4 heads of 6 channels, 2 of 6, 2 of 5, and a channel before and after of no use, or, where
        # others lie between heads, some of them twice of use.
        row, starts = arrays.uniform(batch, 48), np.array(start)
        keys, values = arrays.uniform(2, 3, 2, 9, 6), arrays.uniform(2, 3, 2, 9, 5)
        tables = [arrays.uniform(batch, 1, rotated) for _ in range(2)] if rotated else []
        norms = [arrays.uniform(2, 6) for _ in range(2)] if norm else []
        layer, sequence, interleaved = 1, 3 - batch, int(bool(rotated) and number % 2 == 1)
        places = {
            "query_offset": 1,
            "key_offset": 25,
            "value_offset": 32 if stride else 37,
            "key_channels": 6,
            "value_channels": 5,
        }
        kind = dialects.DecodeAttentionPartOp if part else dialects.DecodeAttentionOp
        expected = kind.reference(
            row,
            row,
            row,
            keys,
            values,
            starts,
            layer,
            sequence,
            past,
            *places.values(),
            SCALE,
            outputs=24 if part else 20,
            **part,
            **options,
            **dict(zip(("cos", "sin"), tables, strict=False)),
            **dict(zip(("query_norm", "key_norm"), norms, strict=False)),
            **norm,
            head_stride=stride,
            interleaved=interleaved,
        )
        case = Case(
            f"decode{number}",
            kind.OPERATION_NAME,
            [
                *[Operand(row, "bn")] * 3,
                Operand(keys, "lqgcd"),
                Operand(values, "lqgce"),
                Operand(starts, "b"),
                Operand(layer),
                Operand(sequence),
                Operand(past),
                *(Operand(table, "btr") for table in tables),
                *(Operand(weight, "ld") for weight in norms),
            ],
            ", ".join(
                [
                    segments(*[True] * 9, *[rotated > 0] * 2, *[norm != {}] * 2),
                    f"head_stride = {stride} : i64",
                    f"interleaved = {interleaved} : i64",
                    *(f"{name} = {at} : i64" for name, at in (places | part).items()),
                    *(f"{name} = {norm.get(name, 0.0)} : f64" for name in normed),
                    attributes(**options),
                ]
            ),
            [
                Operand(value, letters)
                for value, letters in zip(expected, ("bo", "lqgcd", "lqgce"), strict=True)
            ],
        )
        cases += case.in_both("qcb" if batch > 1 else "qc")
    check(cases)


def test_cache(arrays):
    cases = []
    for batch, tokens in [(1, 1), (1, 4), (3, 1), (2, 3)]:
        cache, rows = arrays.uniform(2, 4, 3, 8, 5), arrays.uniform(batch, 3, tokens, 5)
        layer, sequence, column = 1, 4 - batch, 3
        new = dialects.CacheAppendOp.reference(cache, rows, layer, sequence, column)
        appended = Case(
            f"append_{batch}_{tokens}",
            "llmc.cache_append",
            [
                Operand(cache, "lqhcd"),
                Operand(rows, "bhtd"),
                Operand(layer),
                Operand(sequence),
                Operand(column),
            ],
            "",
            Operand(new, "lqhcd"),
            tolerance=0,
        )
        held = dialects.CacheReadOp.reference(cache, layer, sequence, batch, tokens)
        read = Case(
            f"read_{batch}_{tokens}",
            "llmc.cache_read",
            [
                Operand(cache, "lqhcd"),
                Operand(layer),
                Operand(sequence),
                Operand(batch),
                Operand(tokens),
            ],
            "",
            Operand(held, "bhsd"),
            tolerance=0,
        )
        read_back = dialects.CacheReadOp.reference(new, layer, sequence, batch, column + tokens)
        assert_same(read_back[:, :, column:], rows, tolerance=0)
        cases += appended.in_both("qc" + ("t" if tokens > 1 else "") + ("b" if batch > 1 else ""))
        cases += read.in_both("qcs" + ("b" if batch > 1 else ""))
    check(cases)


@pytest.mark.parametrize("format_", [KEYS, VALUES], ids=["keys", "values"])
def test_cache_of_cells(arrays, format_):
    cases = []
    # Within a cell, from the end of one to the begin of the next, and over all of one.
    for column, tokens, channels in [(3, 1, 64), (14, 4, 50), (10, 30, 64)]:
        blocks = format_.encode(arrays.uniform(2, 3, 2, 48, channels))
        cache, rows = format_.pack(blocks), arrays.uniform(2, 2, tokens, channels)
        new = dialects.CacheAppendOp.reference(cache, rows, 1, 1, column)
        place = [Operand(1), Operand(1), Operand(column)]
        appended = Case(
            f"append_{column}",
            "llmc.cache_append",
            [Operand(cache, "lqhcd"), Operand(rows, "bhtr"), *place],
            "",
            Operand(new, "lqhcd"),
            tolerance=0,
        )
        blocks[1, 1:, :, column : column + tokens] = format_.encode(rows)
        held = format_.decode(blocks[1, 1:, :, : column + tokens])[..., :channels]
        read = Case(
            f"read_{column}",
            "llmc.cache_read",
            [Operand(new, "lqhcd"), *(Operand(i) for i in (1, 1, 2, column + tokens))],
            "",
            Operand(held, "bhsr"),
            tolerance=0,
        )
        cases += [*appended.in_both("qct"), *read.in_both("qcsb")]
    check(cases)


def test_caches_are_allocated_and_hold_what_is_appended():
    cache, rows = "tensor<2x?x3x?x4xf32>", "tensor<1x3x?x4xf32>"
    append = f"({cache}, {rows}, index, index, index) -> {cache}"
    read = f"({cache}, index, index, index, index) -> {rows}"
    functions = compile_text(f"""
        ml_program.global private mutable @a : {cache}
        ml_program.global private mutable @b : {cache}
        func.func @swap(%x: {rows}, %y: {rows}) -> ({rows}, {rows}) {{
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %two = arith.constant 2 : index
          %five = arith.constant 5 : index
          %room_a = "llmc.cache_allocate"(%one, %five) : (index, index) -> {cache}
          %room_b = "llmc.cache_allocate"(%one, %five) : (index, index) -> {cache}
          ml_program.global_store @a = %room_a : {cache}
          ml_program.global_store @b = %room_b : {cache}
          %a = ml_program.global_load @a : {cache}
          %new_a = "llmc.cache_append"(%a, %x, %one, %zero, %zero) : {append}
          ml_program.global_store @a = %new_a : {cache}
          %b = ml_program.global_load @b : {cache}
          %new_b = "llmc.cache_append"(%b, %y, %one, %zero, %zero) : {append}
          ml_program.global_store @b = %new_b : {cache}
          %held_a = ml_program.global_load @a : {cache}
          %held_b = ml_program.global_load @b : {cache}
          %x_again = "llmc.cache_read"(%held_a, %one, %zero, %one, %two) : {read}
          %y_again = "llmc.cache_read"(%held_b, %one, %zero, %one, %two) : {read}
          return %y_again, %x_again : {rows}, {rows}
        }}""")
    x, y = Arrays().uniform(2, 1, 3, 2, 4)
    for found, expected in zip(functions["swap"](x, y), (y, x), strict=True):
        assert_same(found.to_host(), expected, tolerance=0)
