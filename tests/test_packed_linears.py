"""Folders quantised by GPTQ and AWQ: layers are what their tensors stand for, or one clear line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from llmc.dialects.blocks import FORMATS
from llmc.frontend.source import open_model
from llmc.runtime.errors import UserError
from tests.packed_folders import edit_settings, write_packed

STORED = {32: "q4_1", 64: "int4_g64", 128: "int4_g128"}
LAYER = "model.layers.0.mlp.up_proj"


@pytest.mark.parametrize("group", STORED)
@pytest.mark.parametrize("method", ["gptq", "gptq_v2", "awq"])
def test_a_layer_keeps_its_groups(method: str, group: int, tmp_path: Path) -> None:
    layers = write_packed(tmp_path, method, group)
    model = open_model(tmp_path)
    format_ = FORMATS[STORED[group]]
    assert model.storage == format_.name.upper()
    assert model.formats == dict.fromkeys(layers, format_.name)
    stored = model.stored_weights()
    for name, layer in layers.items():
        blocks = stored[name]
        assert blocks.dtype == format_.dtype
        integers = format_.integers(blocks).reshape(layer.integers.shape)
        assert (integers == layer.integers).all()
        assert (blocks["scale"] == layer.scales).all()
        exact = -layer.scales.astype(np.float32) * layer.zeros
        assert (blocks["minimum"] == exact.astype(np.float16)).all()


@pytest.mark.parametrize("method", ["gptq", "awq"])
@pytest.mark.parametrize("family", ["llama", "mixtral"])  # whose experts are merged
def test_weights_are_exactly_those_of_the_model_unpacked(
    method: str, family: str, tmp_path: Path
) -> None:
    write_packed(tmp_path, method, 32, family)
    expected = open_model(tmp_path / "plain").weights()
    found = open_model(tmp_path).weights()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name].float(), expected[name].float()) for name in expected)


def test_first_layers_only(tmp_path: Path) -> None:
    layers = write_packed(tmp_path, "gptq", 64)
    model = open_model(tmp_path, 1)
    assert set(model.formats) == {name for name in layers if ".layers.0." in name}
    assert model.stored_weights().keys() == model.weights().keys()


def test_an_order_need_not_be_stated(tmp_path: Path) -> None:
    write_packed(tmp_path, "gptq", 64)
    expected = open_model(tmp_path).weights()
    change(tmp_path, g_idx=None)
    assert torch.equal(
        open_model(tmp_path).weights()[f"{LAYER}.weight"], expected[f"{LAYER}.weight"]
    )


def change(folder: Path, **parts: torch.Tensor | None) -> None:
    """Changes parts of one layer, or takes them away."""
    path = folder / "model.safetensors"
    weights = load_file(path) | {f"{LAYER}.{part}": each for part, each in parts.items()}
    kept = {name: each for name, each in weights.items() if each is not None}
    save_file(kept, path, metadata={"format": "pt"})


def int32(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


def scales(value: float) -> torch.Tensor:
    return torch.full((4, 256), value)


# What is done to a folder of GPTQ with groups of 32, and what the message has to name.
DAMAGE = {
    "another method": (lambda f: edit_settings(f, quant_method="bitsandbytes"), "bitsandbytes"),
    "no method": (lambda f: edit_settings(f, quant_method=None), "None"),
    "method a list": (lambda f: edit_settings(f, quant_method=["gptq"]), "gptq"),
    "8 bits": (lambda f: edit_settings(f, bits=8), "bits 8"),
    "bits of text": (lambda f: edit_settings(f, bits="4"), "bits"),
    "a group for each row": (lambda f: edit_settings(f, group_size=-1), "group_size -1"),
    "no group": (lambda f: edit_settings(f, group_size=None), "group_size None"),
    "another group": (lambda f: edit_settings(f, group_size=64), "qzeros is 8x16, not 4x16"),
    "another layout": (lambda f: edit_settings(f, checkpoint_format="marlin"), "marlin"),
    "each its own way": (lambda f: edit_settings(f, dynamic={"x": {"bits": 8}}), "dynamic"),
    "another version": (
        lambda f: edit_settings(f, quant_method="awq", version="gemv"),
        "version gemv",
    ),
    "no zero points": (
        lambda f: edit_settings(f, quant_method="awq", version="gemm", zero_point=False),
        "zero_point False",
    ),
    "order of activations": (
        lambda f: change(f, g_idx=torch.arange(128, dtype=torch.int32) % 4),
        "desc_act",
    ),
    "order of another length": (lambda f: change(f, g_idx=int32(64)), "g_idx is 64"),
    "order of floats": (lambda f: change(f, g_idx=torch.zeros(128)), "g_idx is stored as F32"),
    "no zeros": (lambda f: change(f, qzeros=None), "qzeros"),
    "no integers": (lambda f: change(f, qweight=None), "qweight"),
    "integers of bytes": (
        lambda f: change(f, qweight=torch.zeros(16, 256, dtype=torch.int8)),
        "I8",
    ),
    "integers in a row": (lambda f: change(f, qweight=int32(4096)), "matrix"),
    "part of a group": (lambda f: change(f, qweight=int32(14, 256)), "256x112"),
    "nothing": (lambda f: change(f, qweight=int32(0, 256)), "256x0"),
    "outputs that fill no word": (lambda f: change(f, qweight=int32(16, 250)), "250x128"),
    "another shape": (
        lambda f: change(
            f, qweight=int32(16, 8), qzeros=int32(4, 1), scales=torch.ones(4, 8)
        ),
        "8x128",
    ),
    "scales of another shape": (lambda f: change(f, scales=torch.ones(4, 8)), "scales is 4x8"),
    "scales of integers": (lambda f: change(f, scales=int32(4, 256)), "scales is stored as I32"),
    "scales that are no numbers": (lambda f: change(f, scales=scales(float("nan"))), "no number"),
    "scales too large": (lambda f: change(f, scales=scales(1e5)), "float16"),
}  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    write_packed(folder, "gptq", 32)
    return folder


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_clear_line(what: str, packed: Path, tmp_path: Path) -> None:
    damage, named = DAMAGE[what]
    for each in packed.glob("*.*"):
        (tmp_path / each.name).write_bytes(each.read_bytes())
    damage(tmp_path)
    with pytest.raises(UserError) as caught:
        open_model(tmp_path).stored_weights()
    message = str(caught.value)
    assert named in message
    assert "\n" not in message


def test_a_matrix_of_no_linear_layer(tmp_path: Path) -> None:
    write_packed(tmp_path, "gptq", 32, "gpt2")  # whose matrices are stored transposed
    with pytest.raises(UserError, match="is packed, but is no linear layer"):
        open_model(tmp_path)
