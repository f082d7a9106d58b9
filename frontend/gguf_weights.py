"""The weights of a GGUF file, as transformers has them."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from torch import Tensor
from transformers import PreTrainedConfig

from llmc.dialects.blocks import Q8_0, BlockFormat
from llmc.frontend.gguf_blocks import KEPT
from llmc.frontend.gguf_file import GgufFile, GgufTensor
from llmc.frontend.gguf_layout import ROPE_FACTORS, GgufLayout
from llmc.frontend.loaded_model import build, outline, shape_text, some_of, untied_state
from llmc.pipelines.parameters import StoredWeight
from llmc.runtime.errors import UserError

# The file's tensors that make each of the model's weights.
Sources = Mapping[str, tuple[str, ...]]

_TORCH_TYPES = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}
_BLOCK = re.compile(r"blk\.(\d+)\.")


def find_sources(file: GgufFile, config: PreTrainedConfig) -> Sources:
    """The tensors of `file` for each weight of the model of `config`, by `state_dict` name.

    UserError if a weight has none, if its shape is not the model's, if its type is none that can
    be read, or if a tensor is left over.
    """
    layout = GgufLayout(file.architecture, config)
    sources: dict[str, tuple[str, ...]] = {}
    for weight, value in untied_state(outline(config, str(file.path))).items():
        sources[weight] = layout.tensors(weight)
        shape = tuple(value.shape)
        if len(sources[weight]) > 1:
            shape = (shape[0], shape[1] // 2, shape[2])
        if layout.is_transposed(sources[weight][0]):
            shape = shape[::-1]
        for name in sources[weight]:
            _check(file, name, shape)
    used = {name for names in sources.values() for name in names}
    if unknown := [
        name for name in _tensors_of(file, config.num_hidden_layers) if name not in used
    ]:
        raise UserError(f"{file.path}: llmc has no use for its tensors {some_of(unknown)}")
    return sources


def read_weights(file: GgufFile, config: PreTrainedConfig, sources: Sources) -> dict[str, Tensor]:
    """The model's weights by the names of its `state_dict`; blocks become float32.

    UserError if one of them holds infinities or NaNs.
    """
    layout = GgufLayout(file.architecture, config)
    return {name: _read(file, layout, tensors) for name, tensors in sources.items()}


def read_blocks(
    file: GgufFile, config: PreTrainedConfig, sources: Sources
) -> dict[str, StoredWeight]:
    """As `read_weights`, but matrices of a type in `KEPT` are blocks of its format.

    These are `[..., N, K / G]`.
    """
    layout = GgufLayout(file.architecture, config)
    weights: dict[str, StoredWeight] = {}
    for name, tensors in sources.items():
        format_ = _format_as_it_is(file, layout, tensors)
        if format_ is None:
            weights[name] = _read(file, layout, tensors)
        else:
            parts = [_blocks(file, layout, tensor) for tensor in tensors]
            weights[name] = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    return weights


def block_formats(file: GgufFile, sources: Sources) -> dict[str, str]:
    """In which format to keep each quantised matrix: that of its type in `KEPT`, else Q8_0."""
    return {
        name: (_only_format(file, tensors) or Q8_0).name
        for name, tensors in sources.items()
        if not any(file.tensors[tensor].type in _TORCH_TYPES for tensor in tensors)
        and len(file.tensors[tensors[0]].shape) > 1
    }


def _only_format(file: GgufFile, names: tuple[str, ...]) -> BlockFormat | None:
    """The format of blocks that all these tensors are kept in; None where they are in several."""
    kept = [KEPT.get(file.tensors[name].type) for name in names]
    formats = {each.format if each else None for each in kept}
    return formats.pop() if len(formats) == 1 else None


def _read(file: GgufFile, layout: GgufLayout, names: tuple[str, ...]) -> Tensor:
    parts = [layout.as_in_transformers(name, _to_torch(file.tensors[name])) for name in names]
    weight = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
    # NaNs and infinities are extremes too; looking for those is ten times faster.
    _require_numbers(file, names, torch.stack(torch.aminmax(weight)))
    return weight


def _format_as_it_is(
    file: GgufFile, layout: GgufLayout, names: tuple[str, ...]
) -> BlockFormat | None:
    """The format of a weight that the model has as the file has it, up to the order of its rows."""
    is_matrix = len(file.tensors[names[0]].shape) > 1
    return _only_format(file, names) if is_matrix and not layout.is_transposed(names[0]) else None


def _blocks(file: GgufFile, layout: GgufLayout, name: str) -> np.ndarray:
    tensor = file.tensors[name]
    kept = KEPT[tensor.type]
    blocks = kept.blocks(tensor.data, tensor.shape)
    for field in kept.format.floats:
        _require_numbers(file, (name,), torch.from_numpy(blocks[field].astype(np.float32)))
    order = layout.order(name, len(blocks))
    return blocks if order is None else blocks[order]


def _require_numbers(file: GgufFile, names: tuple[str, ...], values: Tensor) -> None:
    if not torch.isfinite(values).all():
        raise UserError(f"{file.path} is damaged: {some_of(names)} holds what is no number")


def rope_buffers(file: GgufFile, config: PreTrainedConfig) -> dict[str, Tensor]:
    """The model's rotary frequencies by buffer name, where the file has factors for them."""
    if ROPE_FACTORS not in file.tensors:
        return {}
    buffers = {
        name: value for name, value in build(config).named_buffers() if name.endswith("inv_freq")
    }
    if not buffers:
        raise UserError(f"{file.path}: the model has no use for {ROPE_FACTORS}")
    for value in buffers.values():
        _check(file, ROPE_FACTORS, tuple(value.shape))
    factors = _to_torch(file.tensors[ROPE_FACTORS]).float()
    if not (torch.isfinite(factors) & (factors > 0)).all():
        raise UserError(f"{file.path}: {ROPE_FACTORS} does not fit the model")
    return {name: value / factors for name, value in buffers.items()}


def storage(file: GgufFile, sources: Sources) -> str:
    """The type that most of the weights' bytes have: a torch type, or that of GGUF's blocks."""
    bytes_of: Counter[GGMLQuantizationType] = Counter()
    for name in (name for names in sources.values() for name in names):
        bytes_of[file.tensors[name].type] += file.tensors[name].data.nbytes
    kind = bytes_of.most_common(1)[0][0]
    return str(_TORCH_TYPES.get(kind, kind.name)).removeprefix("torch.")


def _tensors_of(file: GgufFile, layers: int) -> Iterator[str]:
    """The names of the tensors that a model of so many layers should have."""
    for name in file.tensors:
        block = _BLOCK.match(name)
        if name != ROPE_FACTORS and (block is None or int(block[1]) < layers):
            yield name


def _check(file: GgufFile, name: str, shape: tuple[int, ...]) -> None:
    tensor = file.tensors.get(name)
    if tensor is None:
        raise UserError(f"{file.path}: it lacks the tensor {name}")
    if tensor.shape != shape:
        raise UserError(
            f"{file.path}: {name} is {shape_text(tensor.shape)},"
            f" the model needs {shape_text(shape)}"
        )
    if not _is_readable(tensor.type):
        raise UserError(f"{file.path}: {name} is stored as {tensor.type.name}: llmc cannot read it")


def _is_readable(kind: GGMLQuantizationType) -> bool:
    if kind in _TORCH_TYPES:
        return True
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _to_torch(tensor: GgufTensor) -> Tensor:
    """The tensor's values in a memory of their own."""
    if dtype := _TORCH_TYPES.get(tensor.type):
        return torch.from_numpy(tensor.data.copy()).view(dtype).reshape(tensor.shape)
    rows = tensor.data.reshape(math.prod(tensor.shape[:-1]), -1)
    with np.errstate(all="ignore"):  # what is no number is found by the caller
        return torch.from_numpy(dequantize(rows, tensor.type)).reshape(tensor.shape)
