"""Each operation's lowering computes what PyTorch does."""

import itertools

import pytest
import torch
from torch import Tensor

from llmc.frontend import torch_ops
from llmc.pipelines.parameters import StoredParameter
from tests.lowered import Case, Operand, check


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def uniform(*shape: int) -> Tensor:
    """Numbers between -1 and 1."""
    return torch.rand(shape) * 2 - 1


def sizes(count: int, largest: int = 9) -> list[int]:
    return torch.randint(1, largest + 1, (count,)).tolist()


def in_both(case: Case, dynamic: str) -> list[Case]:
    """`case`, and once more with the dimensions `dynamic` left open."""
    opened = Case(
        f"{case.name}_dynamic",
        case.op,
        case.operands,
        case.attributes,
        case.expected,
        dynamic,
        case.tolerance,
    )
    return [case, opened]


def segments(*present: int) -> str:
    return f"operandSegmentSizes = array<i32: {', '.join(map(str, present))}>"


def test_linear():
    cases = []
    for bias, transposed, narrow in itertools.product((0, 1), (0, 1), (0, 1)):
        b, t, k, n = sizes(4)
        x, weight, shift = uniform(b, t, k), uniform(n, k), uniform(n)
        weight = weight.half() if narrow else weight
        y = torch_ops.linear(x, weight.float(), shift if bias else None, False)
        case = Case(
            f"bias{bias}_transposed{transposed}_narrow{narrow}",
            "llmc.linear",
            [
                Operand(x, "btk"),
                Operand(weight.mT.contiguous(), "kn") if transposed else Operand(weight, "nk"),
                *([Operand(shift, "n")] if bias else []),
            ],
            f"{segments(1, 1, bias)}, transposed = {transposed} : i64",
            Operand(y, "btn"),
        )
        cases += in_both(case, "bt")
    x, weight = uniform(3, 5), uniform(4, 5)
    cases.append(
        Case(
            "matrix",
            "llmc.linear",
            [Operand(x, "tk"), Operand(weight, "nk")],
            f"{segments(1, 1, 0)}, transposed = 0 : i64",
            Operand(x @ weight.mT, "tn"),
            dynamic="t",
        )
    )
    check(cases)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_packed_linear(element):
    cases = []
    # One row, several, more than a tile; outputs that fill the panels and that do not.
    for tokens, outputs, transposed, bias in [
        (1, 8, False, 0),
        (1, 11, True, 1),
        (3, 11, False, 1),
        (9, 3, True, 0),
    ]:
        x, weight, shift = uniform(1, tokens, 5), uniform(outputs, 5), uniform(outputs)
        weight = weight.half().float() if element == "f16" else weight
        panels = -(-outputs // 4)
        stored = StoredParameter("w", ("w",), (panels, 5, 4), element, 4, transposed)
        packed = stored.build({"w": weight.mT if transposed else weight})
        case = Case(
            f"tokens{tokens}_outputs{outputs}",
            "llmc.packed_linear",
            [Operand(x, "btk"), Operand(packed, "pkj"), *([Operand(shift, "n")] if bias else [])],
            f"{segments(1, 1, bias)}, tile = 4 : i64",
            Operand(torch_ops.linear(x, weight, shift if bias else None, False), "btn"),
        )
        cases += in_both(case, "t" if tokens > 1 else "b")
    check(cases)


def test_expert_linear():
    cases = []
    for top_k, transposed, narrow in itertools.product((1, 3), (0, 1), (0, 1)):
        experts, rows, k, n = sizes(4)
        x, expert = uniform(rows, k), torch.randint(experts, (rows * top_k,))
        weight = uniform(experts, n, k)
        weight = weight.half() if narrow else weight
        case = Case(
            f"top{top_k}_transposed{transposed}_narrow{narrow}",
            "llmc.expert_linear",
            [
                Operand(x, "rk"),
                Operand(expert, "c"),
                Operand(weight.mT.contiguous(), "ekn") if transposed else Operand(weight, "enk"),
            ],
            f"top_k = {top_k} : i64, transposed = {transposed} : i64",
            Operand(torch_ops.expert_linear(x, expert, weight.float(), top_k, False), "cn"),
        )
        cases += in_both(case, "rc")
    check(cases)


def test_rms_norm():
    cases = []
    for offset, shape in [(0.0, (2, 3, 8)), (1.0, (1, 5, 7)), (0.0, (4, 6)), (0.0, (2, 3, 4, 5))]:
        x, weight = uniform(*shape), uniform(shape[-1])
        x[..., 0, :] = 0  # where epsilon alone keeps it finite
        letters = "abcd"[: len(shape) - 1] + "n"
        case = Case(
            f"offset{int(offset)}_rank{len(shape)}",
            "llmc.rms_norm",
            [Operand(x, letters), Operand(weight, "n")],
            f"epsilon = 1.0e-5, offset = {offset}",
            Operand(torch_ops.rms_norm(x, weight, 1e-5, offset), letters),
        )
        cases += in_both(case, letters[:-1])
    check(cases)


def test_rotary():
    cases = []
    for batch, shared, channels, rotated in [(1, True, 8, 8), (3, True, 8, 4), (3, False, 6, 6)]:
        x = uniform(batch, 2, 5, channels)
        cos, sin = (uniform(1 if shared else batch, 5, rotated) for _ in range(2))
        table = "1tr" if shared else "btr"
        case = Case(
            f"batch{batch}_of_{rotated}_shared{int(shared)}",
            "llmc.rotary",
            [Operand(x, "bhtd"), Operand(cos, table), Operand(sin, table)],
            "",
            Operand(torch_ops.rotary(x, cos, sin), "bhtd"),
        )
        cases += in_both(case, "t" if shared and batch == 1 else "bt")
    check(cases)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    past: int = 0,
    start: Tensor | None = None,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """Attention with scale 0.5, written row by row from its definition."""
    batch, heads, tokens, _ = query.shape
    groups = heads // key.shape[1]
    out = torch.zeros(*query.shape[:3], value.shape[3])
    for b, h, t in itertools.product(range(batch), range(heads), range(tokens)):
        last = past + t
        first = max(int(start[b]) if start is not None else 0, last + 1 - window if window else 0)
        seen = slice(first, last + 1)
        scores = key[b, h // groups, seen] @ query[b, h, t] * 0.5
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        out[b, h, t] = torch.softmax(scores, 0) @ value[b, h // groups, seen]
    return out


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


def attention_case(
    name: str,
    tokens: int = 5,
    groups: int = 1,
    width: int = 4,
    past: int = 0,
    start: list[int] | None = None,
    **options,
) -> list[Case]:
    batch, held = len(start or [0]), past + tokens
    query = uniform(batch, 2 * groups, tokens, 4) * 2
    key, value = uniform(batch, 2, held, 4) * 2, uniform(batch, 2, held, width)
    starts = None if start is None else torch.tensor(start)
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
        f"{segments(1, 1, 1, int(past > 0), int(start is not None))}, scale = 0.5,"
        f" window = {options.get('window', 0)} : i64, softcap = {options.get('softcap', 0.0)}",
        Operand(attend(query, key, value, past=past, start=starts, **options), "bhte"),
    )
    return in_both(case, "s" if tokens == 1 else "bts" if batch > 1 else "ts")


def test_attention():
    check([case for name, kind in ATTENTIONS.items() for case in attention_case(name, **kind)])


@pytest.mark.parametrize("name", ["plain", "grouped", "window", "softcap", "values_of_other_width"])
def test_the_torch_twin_of_attention_means_the_same(name):
    kind = {"window": 0, "softcap": 0.0, **ATTENTIONS[name]}
    query = uniform(2, 2 * kind.pop("groups", 1), 5, 4)
    key, value = uniform(2, 2, 5, 4), uniform(2, 2, 5, kind.pop("width", 4))
    twin = torch_ops.attention(query, key, value, 0.5, kind["window"], kind["softcap"])
    torch.testing.assert_close(twin, attend(query, key, value, **kind))


def test_cache():
    cases = []
    for batch, tokens in [(1, 1), (1, 4), (3, 1), (2, 3)]:
        layers, sequences, heads, capacity, channels = 2, 4, 3, 8, 5
        cache = uniform(layers, sequences, heads, capacity, channels)
        rows = uniform(batch, heads, tokens, channels)
        layer, sequence, column = 1, 4 - batch, 3
        new = cache.clone()
        new[layer, sequence:, :, column : column + tokens] = rows
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
            Operand(cache[layer, sequence:, :, :tokens], "bhsd"),
            tolerance=0,
        )
        cases += in_both(appended, "qc" + ("t" if tokens > 1 else "") + ("b" if batch > 1 else ""))
        cases += in_both(read, "qcs" + ("b" if batch > 1 else ""))
    check(cases)
