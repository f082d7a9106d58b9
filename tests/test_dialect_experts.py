"""Operations on experts mean in linalg what their references say, and their torch twins give."""

import itertools

import numpy as np
import pytest
import torch

from llmc import dialects
from llmc.dialects.block_panels import pack_blocks
from llmc.dialects.blocks import Q4_0, Q4_1, Q8_0
from llmc.frontend import torch_ops
from llmc.pipelines.recipes.pack import Pack
from tests.arrays import Arrays, assert_same, twin
from tests.lowered import Case, Operand, check


@pytest.fixture
def arrays() -> Arrays:
    return Arrays()


def test_expert_linear(arrays):
    reference = dialects.ExpertLinearOp.reference
    cases = []
    for top_k, transposed, narrow in itertools.product((1, 3), (False, True), (False, True)):
        experts, rows, k, n = arrays.sizes(4)
        x, expert = arrays.uniform(rows, k), arrays.integers(experts, rows * top_k)
        weight = arrays.uniform(experts, n, k)
        weight = weight.astype(np.float16) if narrow else weight
        stored = np.ascontiguousarray(weight.swapaxes(1, 2)) if transposed else weight
        y = reference(x, expert, stored, top_k, transposed)
        assert_same(y, reference(x, expert, weight, top_k))
        wide = stored.astype(np.float32)
        assert_same(y, twin("expert_linear", x, expert, wide, top_k, transposed))
        case = Case(
            f"top{top_k}_transposed{transposed}_narrow{narrow}",
            "llmc.expert_linear",
            [
                Operand(x, "rk"),
                Operand(expert, "c"),
                Operand(stored, "ekn" if transposed else "enk"),
            ],
            f"top_k = {top_k} : i64, transposed = {int(transposed)} : i64",
            Operand(y, "cn"),
        )
        cases += case.in_both("rc")
    check(cases)


def test_packed_expert_linear_with_and_without_groups(arrays):
    cases = []
    for rows, outputs, top_k, experts in [(1, 7, 2, 5), (6, 8, 1, 3), (5, 3, 3, 9), (4, 5, 1, 1)]:
        x, expert = arrays.uniform(rows, 6), arrays.integers(experts, rows * top_k)
        weight = arrays.uniform(experts, outputs, 6)
        panels = np.ascontiguousarray(Pack((1,), (4,), (0, 1, 2)).compute(weight))
        order, first, _ = dialects.GroupRowsOp.reference(expert, experts)
        y = dialects.PackedExpertLinearOp.reference(x, expert, panels, top_k, outputs)
        of_groups = np.repeat(x, top_k, axis=0)[order]
        grouped = dialects.GroupedExpertLinearOp.reference(of_groups, first, panels, outputs)
        assert_same(y, dialects.ExpertLinearOp.reference(x, expert, weight, top_k))
        assert_same(y[order], grouped)
        name = f"rows{rows}_top{top_k}"
        one_by_one = Case(
            f"each_{name}",
            "llmc.packed_expert_linear",
            [Operand(x, "rk"), Operand(expert, "c"), Operand(panels, "epkj")],
            f"top_k = {top_k} : i64",
            Operand(y, "cn"),
        )
        in_groups = Case(
            f"grouped_{name}",
            "llmc.grouped_expert_linear",
            [Operand(of_groups, "ck"), Operand(first, "f"), Operand(panels, "epkj")],
            "",
            Operand(grouped, "cn"),
        )
        cases += [*one_by_one.in_both("rc"), *in_groups.in_both("c")]
    check(cases)


def test_quantized_experts_with_and_without_groups(arrays):
    cases = []
    for number, (format_, rows, outputs, top_k, experts) in enumerate(
        [(Q4_0, 1, 7, 2, 5), (Q8_0, 6, 8, 1, 3), (Q4_1, 5, 3, 3, 9)]
    ):
        x, expert = arrays.uniform(rows, 64), arrays.integers(experts, rows * top_k)
        blocks = format_.encode(arrays.uniform(experts, outputs, 64))
        panels = pack_blocks(blocks, 4)
        exact = dialects.ExpertLinearOp.reference(x, expert, blocks, top_k)
        cases.append(
            Case(
                f"exact{number}",
                "llmc.expert_linear",
                [Operand(x, "rk"), Operand(expert, "c"), Operand(blocks, "enb")],
                f"top_k = {top_k} : i64, transposed = 0 : i64",
                Operand(exact, "cn"),
            )
        )
        named = f'format = "{format_.name}"'
        y = dialects.PackedQuantizedExpertLinearOp.reference(
            x, expert, panels, format_.name, top_k, outputs
        )
        assert_same(y, exact, tolerance=0.3)  # 64 products, of activations rounded to 8 bits
        cases += Case(
            f"each{number}",
            "llmc.packed_quantized_expert_linear",
            [Operand(x, "rk"), Operand(expert, "c"), Operand(panels, "epbs")],
            f"{named}, top_k = {top_k} : i64",
            Operand(y, "cn"),
        ).in_both("rc")
        order, first, _ = dialects.GroupRowsOp.reference(expert, experts)
        of_groups = x[order // top_k]
        grouped = dialects.GroupedQuantizedExpertLinearOp.reference(
            of_groups, first, panels, format_.name, outputs
        )
        assert_same(grouped, y[order])
        cases += Case(
            f"grouped{number}",
            "llmc.grouped_quantized_expert_linear",
            [Operand(of_groups, "ck"), Operand(first, "f"), Operand(panels, "epbs")],
            named,
            Operand(grouped, "cn"),
        ).in_both("c")
    check(cases)


def test_route(arrays):
    cases = []
    for experts, count, normalised in [(9, 3, True), (5, 5, False), (1, 1, True)]:
        logits = arrays.uniform(4, experts)
        weights, chosen = dialects.RouteOp.reference(logits, count, normalised)
        for found, expected in zip(
            torch_ops.route(torch.from_numpy(logits), count, normalised),
            (weights, chosen),
            strict=True,
        ):
            assert_same(found.numpy(), expected)
        cases += Case(
            f"of{experts}",
            "llmc.route",
            [Operand(logits, "re")],
            f"normalised = {int(normalised)} : i64",
            [Operand(weights, "rc"), Operand(chosen, "rc")],
        ).in_both("r")
    check(cases)


@pytest.mark.parametrize(
    ("biased", "options"),
    [
        (True, (9, 3, True, True, 2.5, 1, 1, 1)),
        (True, (9, 3, False, True, 1.0, 1, 1, 1)),
        (False, (5, 5, True, False, 1.0, 1, 1, 1)),
        (True, (12, 3, True, True, 2.5, 4, 2, 2)),
        (False, (12, 4, False, False, 16.0, 3, 1, 1)),
    ],
)
def test_scored_route(arrays, biased, options):
    experts, *options = options
    logits, bias = arrays.uniform(4, experts), arrays.uniform(experts) if biased else None
    weights, chosen = dialects.ScoredRouteOp.reference(logits, bias, *options)
    twins = torch_ops.scored_route(
        torch.from_numpy(logits), None if bias is None else torch.from_numpy(bias), *options
    )
    for found, expected in zip(twins, (weights, chosen), strict=True):
        assert_same(found.numpy(), expected)
    _, sigmoid, normalised, scale, groups, kept, best = options
    case = Case(
        "route",
        "llmc.scored_route",
        [Operand(logits, "re"), *([Operand(bias, "e")] if biased else [])],
        f"best = {best} : i64, groups = {groups} : i64, kept_groups = {kept} : i64, "
        f"normalised = {int(normalised)} : i64, "
        f"operandSegmentSizes = array<i32: 1, {int(biased)}>, "
        f"scale = {scale} : f64, sigmoid = {int(sigmoid)} : i64",
        [Operand(weights, "rc"), Operand(chosen, "rc")],
    )
    check(case.in_both("r"))


def test_combine_experts(arrays):
    cases = []
    for rows, chosen, columns in [(1, 8, 6), (5, 2, 3)]:
        y, weights = arrays.uniform(rows * chosen, columns), arrays.uniform(rows, chosen)
        sums = dialects.CombineExpertsOp.reference(y, weights)
        assert_same(sums, twin("combine_experts", y, weights))
        cases += Case(
            f"combine{rows}",
            "llmc.combine_experts",
            [Operand(y, "qn"), Operand(weights, "rc")],
            "",
            Operand(sums, "rn"),
        ).in_both("qr")
    check(cases)


def test_combine_grouped_experts(arrays):
    cases = []
    for rows, chosen, columns in [(1, 8, 6), (5, 2, 3)]:
        y, weights = arrays.uniform(rows * chosen, columns), arrays.uniform(rows, chosen)
        place = np.argsort(arrays.uniform(rows * chosen)).astype(np.int32)
        sums = dialects.CombineGroupedExpertsOp.reference(y, place, weights)
        assert_same(sums, twin("combine_experts", y[place], weights))
        operands = [Operand(y, "qn"), Operand(place, "q"), Operand(weights, "rc")]
        residual = arrays.uniform(rows, columns)
        both = dialects.CombineGroupedExpertsOp.reference(y, place, weights, residual)
        assert_same(both, sums + residual)
        for adds, expected in enumerate((sums, both)):
            cases += Case(
                f"combine{rows}{adds}",
                "llmc.combine_grouped_experts",
                [*operands, *[Operand(residual, "rn")] * adds],
                f"operandSegmentSizes = array<i32: 1, 1, 1, {adds}>",
                Operand(expected, "rn"),
            ).in_both("qr")
    check(cases)


def test_take_rows(arrays):
    cases = []
    for top_k, x in ((1, arrays.uniform(4, 6)), (3, arrays.uniform(3, 2, 5))):
        ids = np.array([2, 0, 0, 1, 2], np.int32) * top_k + top_k - 1
        rows = dialects.TakeRowsOp.reference(ids, x, top_k)
        letters = "abc"[: x.ndim - 1]
        cases += Case(
            f"take{top_k}",
            "llmc.take_rows",
            [Operand(ids, "r"), Operand(x, f"t{letters}")],
            f"top_k = {top_k} : i64",
            Operand(rows, f"r{letters}"),
        ).in_both("rt")
    check(cases)


def test_group_rows(arrays):
    cases = []
    choices = [arrays.integers(7, 20), np.array([3]), np.full(9, 5), np.tile(np.arange(7), 3)]
    for number, expert in enumerate(choices):
        order, first, place = dialects.GroupRowsOp.reference(expert, 7)
        assert (order[place] == np.arange(len(expert))).all()
        for which in range(7):
            assert order[first[which] : first[which + 1]].tolist() == list(
                np.flatnonzero(expert == which)
            )
        case = Case(
            f"choice{number}",
            "llmc.group_rows",
            [Operand(expert, "c")],
            "",
            [Operand(order, "c"), Operand(first, "f"), Operand(place, "c")],
            tolerance=0,
        )
        cases += case.in_both("c")
    check(cases)
