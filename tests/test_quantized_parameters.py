"""Kernels of quantised layers compute what these mean by any parameters, whatever the layer is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import divisors

from llmc.dialects.blocks import FORMATS, Q8_0
from tests.cpu_code import BYTES, LANES
from tests.programs.properties import bounded
from tests.test_quantized_kernels import Case, check


@st.composite
def layers(draw: st.DrawFn, kind: str) -> Case:
    """A layer whose kernel is of `kind`, and the parameters of its schedule."""
    format_ = draw(st.sampled_from([*FORMATS, "planes", "high"]))
    blocks, panels = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    after = draw(st.sampled_from(["", "add", "gate"]))
    # What is multiplied by a gate has two panels for each of the result.
    all_panels = 2 * panels if after == "gate" else panels
    missing = 0 if after == "gate" else draw(st.integers(0, LANES - 1))
    is_row = kind == "quantized_matvec"
    return Case(
        rows=1 if is_row else draw(st.integers(1, 40)),
        inputs=blocks * FORMATS.get(format_, Q8_0).values,
        outputs=all_panels * LANES - missing,
        format=format_,
        dynamic=not is_row,
        norm=draw(st.booleans()),
        bias=format_ in FORMATS and draw(st.booleans()),
        after=after,
        schedule=draw((row_schedules if is_row else rows_schedules)(panels, blocks)),
        columns=LANES,
    )


@st.composite
def row_schedules(draw: st.DrawFn, panels: int, blocks: int) -> str:
    each = draw(st.sampled_from(divisors(panels)[:-1]))
    together = draw(st.sampled_from(divisors(each)))
    ahead, later, first = (draw(st.integers(0, most)) for most in (2, 8, blocks + 1))
    return (
        f"quantized_matvec{{panels={each} together={together} ahead={ahead} blocks={later} "
        f"cache={draw(st.integers(2, 3))} first={first} {draw(INSTRUCTIONS)}}}"
    )


@st.composite
def rows_schedules(draw: st.DrawFn, panels: int, blocks: int) -> str:
    each = draw(st.sampled_from(divisors(panels)[:-1]))
    together = draw(st.sampled_from(divisors(each)))
    rows, first = draw(st.integers(1, max(1, 16 // together))), draw(st.integers(0, blocks + 1))
    return (
        f"quantized_matmul{{panels={each} rows={rows} together={together} first={first} "
        f"blocks={draw(st.sampled_from(divisors(blocks)))} {draw(INSTRUCTIONS)}}}"
    )


INSTRUCTIONS = st.sampled_from(
    [f"instruction={name} lanes={BYTES.lanes}" for name in (BYTES.name, "plain")]
)


@pytest.mark.parametrize("kind", ["quantized_matvec", "quantized_matmul"])
def test_any_parameters(kind, request):
    @bounded(8, request)
    @given(layers(kind))
    def computes(case: Case) -> None:
        check(case)

    computes()
