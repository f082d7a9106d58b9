"""What hypothesis draws: models and functions, mostly of the structure that passes look for."""

from hypothesis import strategies as st

from llmc.dialects.blocks import FORMATS
from llmc.runtime import abi
from tests.programs.blocks import MLP, Attention, Experts, Linear, Norm, Parallel, Quantized
from tests.programs.functions import Function
from tests.programs.models import Model
from tests.programs.step import Step
from tests.programs.steps import (
    AddSaved,
    ByPosition,
    Flatten,
    Fork,
    Halves,
    LastToken,
    MixTokens,
    Pointwise,
    Project,
    Reshapes,
    Save,
    Twice,
    Unused,
)

_STEPS_MOST = 3

_linears = st.builds(
    Linear, bias=st.booleans(), stored=st.sampled_from(["rows", "rows", "columns", "turned"])
)
_norms = st.sampled_from([Norm(), Norm(offset=1.0), Norm(weighted=False)])
_functions = st.sampled_from(["silu", "tanh", "half", "square"])
_mostly = st.sampled_from([True, True, True, False])
_heads = st.sampled_from([(2, 1), (2, 2), (1, 1), (4, 2)])

_attentions = st.builds(
    lambda heads, **rest: Attention(heads[0], heads[1], **rest),
    _heads,
    channels=st.sampled_from([4, 6, 2]),
    linear=_linears,
    norm=_norms | st.none(),
    head_norm=st.booleans(),
    rotary=_mostly,
    cut=_mostly,
    window=st.sampled_from([0, 0, 2]),
    softcap=st.sampled_from([0.0, 0.0, 2.0]),
    importers_reshape=st.booleans(),
    residual=st.booleans(),
    interleaved=st.booleans(),
)
_mlps = st.builds(
    MLP,
    width=st.sampled_from([5, 8, 32]),
    gated=st.booleans(),
    function=_functions,
    linear=_linears,
    norm=_norms | st.none(),
    residual=st.booleans(),
)
_experts = st.builds(
    Experts,
    experts=st.sampled_from([3, 1]),
    top_k=st.sampled_from([1, 2]),
    width=st.sampled_from([5, 32]),
    transposed=st.booleans(),
)
_quantized = st.builds(Quantized, format=st.sampled_from([*FORMATS]), rows=st.booleans())
_by_position = st.builds(ByPosition, table=st.booleans())
_small: st.SearchStrategy[Step] = st.one_of(
    _norms,
    st.builds(Pointwise, _functions),
    st.builds(Project, _linears),
    st.builds(Fork, st.booleans(), _linears),
    st.builds(Save),
    st.builds(AddSaved, which=st.integers(0, 2), whole=st.booleans()),
    st.builds(Halves, st.sampled_from([1, 2, 4])),
    st.builds(Flatten),
    st.builds(Unused),
    st.builds(Reshapes, importers=st.booleans(), transpose=st.booleans()),
)
_local: st.SearchStrategy[Step] = st.one_of(
    _small,
    _mlps,
    _experts,
    _quantized,
    _by_position,
    st.builds(Twice, _small | _mlps),
)
_mixing: st.SearchStrategy[Step] = st.one_of(
    _attentions,
    st.builds(MixTokens),
    st.builds(LastToken, st.sampled_from(["norm", "linear", "nothing"])),
)


@st.composite
def _layers(draw: st.DrawFn) -> tuple[Step, ...]:
    """The steps of a layer: attention and an MLP or experts, and others around them."""
    noise = st.lists(_local, max_size=2)
    return (
        *draw(st.lists(_by_position, max_size=1)),
        *draw(noise),
        draw(st.one_of(_attentions, _attentions, st.builds(Parallel, _attentions, _mlps))),
        *draw(noise),
        draw(st.one_of(_mlps, _mlps, _experts)),
        *draw(st.lists(_quantized, max_size=1)),
        *draw(noise),
    )


_kinds_and_layers = st.one_of(
    st.tuples(st.tuples(_layers()), st.sampled_from([(0, 0), (0,), (0, 0, 0)])),
    st.tuples(st.tuples(_layers(), _layers()), st.sampled_from([(0, 1), (0, 1, 0), ()])),
)

models = st.builds(
    lambda structure, **rest: Model(*structure, **rest),
    _kinds_and_layers,
    variants=st.sampled_from(
        [
            (abi.PREFILL,),
            (abi.PREFILL, abi.DECODE),
            (abi.DECODE,),
            (abi.PREFILL, abi.DECODE, abi.DECODE_BATCH),
        ]
    ),
    before=st.lists(_local, max_size=1).map(tuple),
    width=st.sampled_from([8, 32]),
    embedding=st.sampled_from(["checked", "lookup", "checked", "operation"]),
    stored_frequencies=_mostly,
    rotary_scale=st.sampled_from([None, 0.5]),
    learned_positions=st.booleans(),
    tied=st.booleans(),
    last=st.sampled_from(["norm", "logits", "hidden"]),
    softcap=st.booleans(),
)


functions = st.builds(
    Function,
    steps=st.lists(_local | _mixing, min_size=1, max_size=_STEPS_MOST).map(tuple),
    width=st.sampled_from([8, 32]),
    batch=st.sampled_from([1, 2]),
    dynamic_batch=st.booleans(),
    dynamic_tokens=st.booleans(),
    returns_saved=st.booleans(),
)
