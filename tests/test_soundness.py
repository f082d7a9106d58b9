"""Models that llmc would compile into something wrong are refused; masks are read as they are."""

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, masking_utils
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from llmc.frontend.compile import compile_model
from llmc.frontend.interception import IMPLEMENTATION, llmc_operations
from llmc.frontend.masks import Unreadable, Window, describe_mask
from llmc.frontend.options import CompileOptions
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.runtime.errors import UserError
from tests.in_memory import as_loaded

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 259,
    "pad_token_id": 0,
}


def tiny(family: str, **settings: object):
    config = AutoConfig.for_model(family, **SHAPE, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
    return model


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("lfm2", {"layer_types": ["conv", "full_attention"]}),
        ("bamba", {"attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 32}),
    ],
)
def test_layers_that_mix_tokens_without_attention_are_refused(family, settings):
    model = tiny(family, **settings)
    model.set_attn_implementation(IMPLEMENTATION)
    with pytest.raises(UserError, match="mixes tokens outside"):
        export_variant(model, VARIANTS[0], 512)


def test_attention_that_bypasses_the_interface_is_refused():
    config = AutoConfig.for_model("bloom", hidden_size=64, n_layer=2, n_head=4, vocab_size=259)
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(UserError):
        export_variant(model, VARIANTS[0], 512)


def test_family_that_is_not_on_the_interface_is_refused(tmp_path):
    settings = {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8, "n_positions": 64}
    config = AutoConfig.for_model("gptj", **settings, vocab_size=320, eos_token_id=2)
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(UserError, match="attention interface") as caught:
        compile_model(as_loaded(model), CompileOptions(), tmp_path / "bundle")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_attention_sinks_are_refused():
    model = tiny("gpt_oss", num_local_experts=4, head_dim=16)
    model.set_attn_implementation(IMPLEMENTATION)
    with pytest.raises(UserError, match="s_aux"):
        export_variant(model, VARIANTS[0], 512)


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("mbart", {"d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4}, "by itself"),
        ("roberta", {}, "from 0"),
    ],
)
def test_positions_that_are_not_those_given_are_refused(family, settings, reason):
    model = tiny(family, **settings, is_decoder=True)
    model.set_attn_implementation(IMPLEMENTATION)
    with pytest.raises(UserError, match=reason):
        export_variant(model, VARIANTS[0], 512)


@pytest.mark.parametrize("family", ["phimoe", "mistral", "cohere2"])
def test_a_window_that_only_the_mask_knows_is_kept(family):
    keeps_its_logits(tiny(family, sliding_window=8))


class GatedRMSNorm(LlamaRMSNorm):
    """A norm that some calls give a gate."""

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        """The norm of `x`, by the gate if there is one."""
        return super().forward(x) if gate is None else super().forward(x) * gate.sigmoid()


def test_the_gate_of_a_norm_is_kept():
    model = tiny("llama")
    model.model.norm = norm = GatedRMSNorm(64)
    x, gate = torch.randn(2, 1, 64)
    expected = norm(x, gate)
    with llmc_operations(model):
        assert "forward" in vars(norm)
        torch.testing.assert_close(norm(x, gate), expected)


def test_attention_that_is_gated_before_it_is_projected_is_kept():
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    keeps_its_logits(tiny("afmoe", **sizes, head_dim=16))


@torch.no_grad()
def keeps_its_logits(model: PreTrainedModel) -> None:
    """What the model computes in llmc operations is what it computes without."""
    ids, positions = torch.randint(3, 255, (1, 20)), torch.arange(20)[None]
    arguments = {"input_ids": ids, "position_ids": positions, "use_cache": False}
    expected = model(**arguments).logits
    model.set_attn_implementation(IMPLEMENTATION)
    with llmc_operations(model):
        actual = model(**arguments).logits
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 100, 4096, 131072])
def test_windows_are_measured(size):
    function = masking_utils.sliding_window_causal_mask_function(size)
    assert describe_mask(mask_function=function) == Window(size)


def test_causal_mask_has_no_window():
    assert describe_mask(mask_function=masking_utils.causal_mask_function) == Window(0)


@pytest.mark.parametrize(
    "function",
    [
        masking_utils.chunked_causal_mask_function(8, torch.zeros(1, dtype=torch.int64)),
        masking_utils.bidirectional_mask_function,
        masking_utils.and_masks(
            masking_utils.causal_mask_function, lambda _b, _h, q, k: (q - k) % 2 == 0
        ),
    ],
)
def test_other_masks_are_not_taken_for_windows(function):
    assert isinstance(describe_mask(mask_function=function), Unreadable)
