"""Each operation's lowering computes what its reference says, and its torch twin does too."""

import itertools

import numpy as np
import pytest
import torch

from llmc import dialects
from llmc.dialects import OPERATIONS
from llmc.dialects.blocks import Q8_0
from llmc.frontend import torch_ops
from llmc.pipelines.recipes.pack import Pack
from tests.arrays import Arrays, assert_same, twin
from tests.lowered import Case, Operand, check, segments


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def optional(value: np.ndarray | None, letters: str) -> list[Operand]:
    return [] if value is None else [Operand(value, letters)]


def test_every_operation_is_complete():
    """Those without a lowering have no meaning in linalg: names, and casts of bytes."""
    casts = {"llmc.bitcast", "llmc.blocks_to_bytes", "llmc.bytes_to_blocks"}
    assert {name for name, op in OPERATIONS.items() if not hasattr(op, "lower")} == {
        "llmc.parameter",
        *casts,
    }
    assert all(hasattr(op, "reference") for op in OPERATIONS.values())


def test_linear(arrays):
    reference = dialects.LinearOp.reference
    cases = []
    for bias, transposed, narrow in itertools.product((False, True), repeat=3):
        b, t, k, n = arrays.sizes(4)
        x, weight = arrays.uniform(b, t, k), arrays.uniform(n, k)
        shift = arrays.uniform(n) if bias else None
        weight = weight.astype(np.float16) if narrow else weight
        stored = np.ascontiguousarray(weight.T) if transposed else weight
        y = reference(x, stored, shift, transposed)
        assert_same(y, reference(x, weight, shift))
        assert_same(y, twin("linear", x, stored.astype(np.float32), shift, transposed))
        case = Case(
            f"bias{bias}_transposed{transposed}_narrow{narrow}",
            "llmc.linear",
            [
                Operand(x, "btk"),
                Operand(stored, "kn" if transposed else "nk"),
                *optional(shift, "n"),
            ],
            f"{segments(1, 1, bias)}, transposed = {int(transposed)} : i64",
            Operand(y, "btn"),
        )
        cases += case.in_both("bt")
    x, weight = arrays.uniform(3, 5), arrays.uniform(4, 5)
    matrix = Case(
        "matrix",
        "llmc.linear",
        [Operand(x, "tk"), Operand(weight, "nk")],
        f"{segments(1, 1, 0)}, transposed = 0 : i64",
        Operand(reference(x, weight), "tn"),
        dynamic="t",
    )
    check([*cases, matrix])


@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_packed_linear(arrays, element):
    cases = []
    # One row, several, more than a tile; outputs that fill the panels and that do not.
    for tokens, outputs, bias in [(1, 8, False), (1, 11, True), (3, 11, True), (9, 3, False)]:
        x, weight = arrays.uniform(1, tokens, 5), arrays.uniform(outputs, 5).astype(element)
        shift = arrays.uniform(outputs) if bias else None
        panels = np.ascontiguousarray(Pack((0,), (4,), (0, 1)).compute(weight))
        y = dialects.PackedLinearOp.reference(x, panels, outputs, shift)
        assert_same(y, dialects.LinearOp.reference(x, weight, shift))
        case = Case(
            f"tokens{tokens}_outputs{outputs}",
            "llmc.packed_linear",
            [Operand(x, "btk"), Operand(panels, "pkj"), *optional(shift, "n")],
            f"{segments(1, 1, bias)}, tile = 4 : i64",
            Operand(y, "btn"),
        )
        cases += case.in_both("t" if tokens > 1 else "b")
    check(cases)


def test_repeat_rows(arrays):
    cases = []
    for name, matrix in (
        ("floats", arrays.uniform(5, 32)),
        ("halves", arrays.uniform(5, 32).astype(np.float16)),
        ("blocks", Q8_0.encode(arrays.uniform(5, 64))),
    ):
        for rows in (5, 8, 10):
            more = dialects.RepeatRowsOp.reference(matrix, rows)
            assert more.tobytes() == matrix[[row % 5 for row in range(rows)]].tobytes()
            given, expected = Operand(matrix, "nk"), Operand(more, "mk")
            cases += [Case(f"{name}_{rows}", "llmc.repeat_rows", [given], "", expected)]
    check(cases)


def draws(arrays: Arrays) -> list[np.ndarray]:
    """Logits `[5, 24]` whose last row has ties, and the 9 largest with their tokens."""
    logits = arrays.uniform(5, 24) * 3
    order = np.argsort(-logits[4])
    logits[4, order[5:9]] = logits[4, order[5]]
    return [logits, *dialects.TopKOp.reference(logits, 9)]


def test_draw(arrays):
    """By all, by the few that top_p or min_p leave, of all columns, where the last ones tie, and
    with less likely ones: all that are left, or some of them.
    """
    logits, values, tokens = draws(arrays)
    best = np.array([7, 7, -1, 7, 7])
    random = np.array([0.0, 0.5, 0.5, 1 - 2.0**-24, 0.9], np.float32)
    cases = []
    for number, (*options, top_k, undecided) in enumerate(
        [
            (0.7, 1, 0, 6, 1),
            (2, 0.8, 0, 6, 1),
            (2, 1, 0.2, 9, 0),
            (1e-38, 0, 0, 1, 0),
            (0.5, 0.9, 0.05, 5, 0),
            (2, 1, 0, 100, 0),
            (0.7, 1, 0, 0, 1),
            (0.7, 0.5, 0, 0, 0),
            (2, 0.9, 0, 0, 4),
            (0.5, 1, 0.2, 0, 2),
            (0.5, 1, 0.4, 0, 0),
        ]
    ):
        given = logits, values, tokens, best, random, np.array(options, np.float32)
        with np.errstate(over="ignore"):
            drawn = dialects.DrawOp.reference(*given, top_k)
        assert (drawn == -2).sum() == undecided
        operands = [*map(Operand, given, ("rv", "rc", "rc", "r", "r", "o")), Operand(top_k)]
        cases += Case(f"kind{number}", "llmc.draw", operands, "", Operand(drawn, "r")).in_both("rc")
    check(cases)


def test_draw_of_all(arrays):
    """By all, by many or few that top_p leaves, by min_p, and by both; where found, that is it."""
    logits, values, tokens = draws(arrays)
    random = np.array([0.0, 0.5, 0.97, 1 - 2.0**-24, 0.9], np.float32)
    cases = []
    for number, (found, *options) in enumerate(
        [
            ([-2] * 5, 2, 1, 0),
            ([-2] * 5, 9, 0.95, 0),
            ([-2] * 5, 2, 0.5, 0),
            ([-2] * 5, 2, 1, 0.1),
            ([-2, 3, -2, -1, -2], 9, 0.98, 0.3),
        ]
    ):
        given = np.array(found), logits, values, tokens, random, np.array(options, np.float32)
        drawn = dialects.DrawOfAllOp.reference(*given)
        operands = [*map(Operand, given, ("r", "rv", "rc", "rc", "r", "o"))]
        case = Case(f"kind{number}", "llmc.draw_of_all", operands, "", Operand(drawn, "r"))
        cases += case.in_both("rc")
        is_open = np.array(found) == -2
        assert np.array_equal(drawn[~is_open], np.array(found)[~is_open])
    check(cases)


def test_argmax(arrays):
    x = arrays.uniform(7, 11)
    x[1, [3, 8]] = 5  # a tie
    x[2, [2, 9]] = np.nan, np.inf
    x[3, 10] = np.inf
    x[4] = -np.inf
    x[5, 4] = -np.nan
    x[6] = 0
    best = dialects.ArgmaxOp.reference(x)
    assert best.tolist() == [x[0].argmax(), 3, -1, -1, -1, -1, 0]
    case = Case("best", "llmc.argmax", [Operand(x, "rn")], "", Operand(best, "r"), tolerance=0)
    check(case.in_both("r"))


def test_top_k(arrays):
    x = arrays.uniform(4, 9)
    x[1, [2, 5, 8]] = 3  # a tie
    x[2] = 0
    x[3, [1, 4]] = -np.inf, np.inf
    values, places = dialects.TopKOp.reference(x, 4)
    assert places[1, :3].tolist() == [2, 5, 8]
    assert places[2].tolist() == [0, 1, 2, 3]
    assert_same(values, torch.from_numpy(x).topk(4).values.numpy())
    for found, expected in zip(
        torch_ops.top_k(torch.from_numpy(x), 4), (values, places), strict=True
    ):
        assert_same(found.numpy(), expected, tolerance=0)
    results = [Operand(values, "rk"), Operand(places, "rk")]
    operands = [Operand(x, "rn"), Operand(4)]
    case = Case("top", "llmc.top_k", operands, "", results, dynamic="k", tolerance=0)
    check(case.in_both("rk"))


def test_rms_norm(arrays):
    reference = dialects.RMSNormOp.reference
    cases = []
    for offset, shape in [(0.0, (2, 3, 8)), (1.0, (1, 5, 7)), (0.0, (4, 6)), (0.0, (2, 3, 4, 5))]:
        x, weight = arrays.uniform(*shape), arrays.uniform(shape[-1])
        x[..., 0, :] = 0  # where epsilon alone keeps it finite
        y = reference(x, weight, 1e-5, offset)
        assert_same(y, twin("rms_norm", x, weight, 1e-5, offset))
        letters = "abcd"[: len(shape) - 1] + "n"
        case = Case(
            f"offset{int(offset)}_rank{len(shape)}",
            "llmc.rms_norm",
            [Operand(x, letters), Operand(weight, "n")],
            f"{segments(1, 1)}, epsilon = 1.0e-5, offset = {offset}",
            Operand(y, letters),
        )
        cases += case.in_both(letters[:-1])
    x = arrays.uniform(2, 3, 8)
    unweighted = Case(
        "unweighted",
        "llmc.rms_norm",
        [Operand(x, "btn")],
        f"{segments(1, 0)}, epsilon = 1.0e-5, offset = 0.0",
        Operand(reference(x, None, 1e-5), "btn"),
    )
    check([*cases, *unweighted.in_both("bt")])


def test_layer_norm(arrays):
    cases = []
    for shape, weighted, biased in [
        ((2, 3, 8), True, True),
        ((1, 5, 7), True, False),
        ((4, 6), False, True),
        ((2, 3, 4, 5), False, False),
    ]:
        x = arrays.uniform(*shape)
        x[..., 0, :] = 3  # where epsilon alone keeps it finite
        weight, bias = (
            arrays.uniform(shape[-1]) if given else None for given in (weighted, biased)
        )
        y = dialects.LayerNormOp.reference(x, weight, bias, 1e-5)
        assert_same(y, twin("layer_norm", x, weight, bias, 1e-5))
        letters = "abcd"[: len(shape) - 1] + "n"
        case = Case(
            f"weighted{int(weighted)}_biased{int(biased)}",
            "llmc.layer_norm",
            [Operand(x, letters), *optional(weight, "n"), *optional(bias, "n")],
            f"{segments(1, weighted, biased)}, epsilon = 1.0e-5",
            Operand(y, letters),
        )
        cases += case.in_both(letters[:-1])
    check(cases)


def test_add_rms_norm(arrays):
    x, residual, weight = arrays.uniform(2, 3, 8), arrays.uniform(2, 3, 8), arrays.uniform(8)
    cases = []
    for scale in (weight, None):
        total, normed = dialects.AddRMSNormOp.reference(x, residual, scale, 1e-5)
        case = Case(
            f"weighted{scale is not None}",
            "llmc.add_rms_norm",
            [Operand(x, "btn"), Operand(residual, "btn"), *optional(scale, "n")],
            f"{segments(1, 1, scale is not None)}, epsilon = 1.0e-5, offset = 0.0",
            [Operand(total, "btn"), Operand(normed, "btn")],
        )
        cases += case.in_both("bt")
    check(cases)


def test_scale_columns(arrays):
    cases = []
    for offset, shape in [(0.0, (3, 5)), (1.0, (2, 3, 4)), (-0.5, (6,))]:
        weight, scale = arrays.uniform(*shape), arrays.uniform(shape[-1])
        letters = "enk"[-len(shape) :]
        case = Case(
            f"rank{len(shape)}",
            "llmc.scale_columns",
            [Operand(weight, letters), Operand(scale, "k")],
            f"offset = {offset}",
            Operand(dialects.ScaleColumnsOp.reference(weight, scale, offset), letters),
        )
        cases += case.in_both(letters)
    check(cases)


def test_rotary(arrays):
    cases = []
    shapes = [(1, True, 8, 8), (3, True, 8, 4), (3, False, 6, 6)]
    for (batch, shared, channels, rotated), interleaved in itertools.product(shapes, (0, 1)):
        x = arrays.uniform(batch, 2, 5, channels)
        cos, sin = (arrays.uniform(1 if shared else batch, 5, rotated) for _ in range(2))
        y = dialects.RotaryOp.reference(x, cos, sin, interleaved)
        assert_same(y, twin("rotary", x, cos, sin, bool(interleaved)))
        table = "1tr" if shared else "btr"
        case = Case(
            f"batch{batch}_of_{rotated}_shared{int(shared)}_interleaved{interleaved}",
            "llmc.rotary",
            [Operand(x, "bhtd"), Operand(cos, table), Operand(sin, table)],
            f"interleaved = {interleaved}",
            Operand(y, "bhtd"),
        )
        cases += case.in_both("t" if shared and batch == 1 else "bt")
    check(cases)


def test_rotary_table(arrays):
    frequencies, cases = arrays.uniform(6), []
    for function, scale in [("cos", 1.0), ("sin", 1.5)]:
        table = dialects.RotaryTableOp.reference(frequencies, 9, function, scale)
        angles = torch.arange(9)[:, None] * torch.from_numpy(frequencies)
        assert_same(table, (getattr(torch, function)(angles) * scale).numpy())
        case = Case(
            function,
            "llmc.rotary_table",
            [Operand(frequencies, "r")],
            f'positions = 9 : i64, function = "{function}", scale = {scale}',
            Operand(table, "pr"),
        )
        cases.append(case)
    check(cases)
