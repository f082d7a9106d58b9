"""The weights of a Hugging Face folder: safetensors, one file or several with an index."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from llmc.frontend.loaded_model import outline, quiet, shape_text, some_of, untied_state
from llmc.frontend.packed_linear import PackedLinear, is_part, take_packed
from llmc.frontend.packing import Packing
from llmc.frontend.text_files import read_json
from llmc.pipelines.parameters import StoredWeight
from llmc.runtime.errors import UserError, one_line

_TORCH_TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
# Types that no weight is computed in: masks and counters that old checkpoints carry along.
_OTHER_TYPES = {"BOOL", "I8", "I16", "I32", "I64", "U8"}
_PICKLES = {".bin", ".ckpt", ".pt", ".pth"}
_Unpacked = TypeVar("_Unpacked", Tensor, np.ndarray)
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")


@dataclass(frozen=True)
class Checkpoint:
    """The safetensors files of a model, of which only the headers were read.

    `types` are the torch types of the weights by the checkpoint's own names, those of packed
    layers left out; `storage` is the one that most of the bytes have.
    """

    folder: Path
    files: tuple[Path, ...]
    types: Mapping[str, torch.dtype]
    storage: torch.dtype
    packing: Packing | None = None

    def weights(self, config: PreTrainedConfig) -> dict[str, Tensor]:
        """The weights of the model of `config`, by the names of its `state_dict`.

        They have the one type that they are stored in, or float32 if there are several, which
        holds them all exactly; those of packed layers have float32. UserError if names or shapes
        differ from the model's.
        """
        return self._read(config, PackedLinear.values)

    def blocks(self, config: PreTrainedConfig) -> dict[str, StoredWeight]:
        """As `weights`, but those of packed linear layers are blocks, `[N, K / G]`."""
        return self._read(config, PackedLinear.blocks)

    def formats(self, config: PreTrainedConfig) -> dict[str, str]:
        """The format of what `blocks` gives as blocks, by name. UserError as for `weights`."""
        if self.packing is None:
            return {}
        model = outline(config, str(self.folder))
        with ExitStack() as open_files:
            packed = take_packed(self._slices(open_files, config), self.packing, self.folder)
            return dict.fromkeys(_linears(packed, model), self.packing.format.name)

    def _slices(self, open_files: ExitStack, config: PreTrainedConfig) -> dict[str, Any]:
        """The text model's weights, not read yet, by the checkpoint's names."""
        slices: dict[str, Any] = {}
        for path in self.files:
            file = open_files.enter_context(_open(path))
            names = [name for name in file.keys() if self._reads(name, file)]  # noqa: SIM118
            slices |= {name: file.get_slice(name) for name in names}
        return _wanted(slices, config.num_hidden_layers)

    def _reads(self, name: str, file: Any) -> bool:
        """Whether a tensor of a file is a weight, or a part of a packed one."""
        if self.packing and is_part(name):
            return True
        return file.get_slice(name).get_dtype() in _TORCH_TYPES

    def _read(
        self, config: PreTrainedConfig, unpack: Callable[[PackedLinear], _Unpacked]
    ) -> dict[str, Tensor | _Unpacked]:
        types = set(self.types.values())
        dtype = types.pop() if len(types) == 1 else torch.float32
        model = outline(config, str(self.folder))
        state = untied_state(model)
        with ExitStack() as open_files, quiet():
            slices = self._slices(open_files, config)
            packed = take_packed(slices, self.packing, self.folder) if self.packing else {}
            self._check_sizes(slices, state)
            linears = _linears(packed, model)
            if len(linears) < len(packed):  # the others are merged into what holds them exactly
                dtype = torch.float32
            for name, layer in packed.items():
                slices[name] = layer.placeholder(dtype) if name in linears else layer.values()
            try:
                # Goes through transformers for the renames and merges between a checkpoint's names
                # and the model's, such as the stacking of Mixtral's experts.
                model, report = type(model).from_pretrained(
                    None,
                    config=config,
                    state_dict=slices,
                    dtype=dtype,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    attn_implementation="eager",
                )
            except (RuntimeError, ValueError, SafetensorError) as error:
                raise UserError(f"{self.folder}: cannot load it: {_told(error)}") from error
            _check(self.folder, report)
            weights = untied_state(model) | {name: unpack(packed[name]) for name in linears}
        if loose := weights.keys() - state.keys():  # for transformers unties what differs
            raise UserError(
                f"{self.folder}: config.json ties {some_of(loose)} to another weight, from which it"
                " differs in the safetensors: set tie_word_embeddings to false there"
            )
        return weights

    def _check_sizes(self, slices: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
        """UserError where a weight is not as large as `state` has it: before it takes memory."""
        for name in sorted(slices.keys() & state.keys()):
            stored, expected = slices[name].get_shape(), state[name].shape
            if prod(stored) != expected.numel():
                raise _mismatch(self.folder, name, stored, expected)


def find_checkpoint(folder: Path, packing: Packing | None = None) -> Checkpoint:
    """The weights' files in `folder`, their headers checked; linear layers may have a `packing`.

    UserError if there are none, they are pickles, broken, or of a type that llmc does not read.
    """
    files = _files(folder)
    types: dict[str, torch.dtype] = {}
    bytes_of: Counter[torch.dtype] = Counter()
    for path in files:
        for name, dtype, elements in _weights_in(path, packing):
            types[name] = dtype
            bytes_of[dtype] += elements * dtype.itemsize
    if not types:
        raise UserError(f"{folder}: its safetensors hold no weights")
    return Checkpoint(folder, files, types, bytes_of.most_common(1)[0][0], packing)


def _weights_in(path: Path, packing: Packing | None) -> Iterator[tuple[str, torch.dtype, int]]:
    """The name, type and number of elements of each weight in a file, but of packed layers."""
    with _open(path) as file:
        for name in file.keys():  # noqa: SIM118 (not a mapping)
            weight = file.get_slice(name)
            stored = weight.get_dtype()
            if stored in _OTHER_TYPES or (packing and is_part(name)):
                continue
            if stored not in _TORCH_TYPES:
                raise UserError(
                    f"{path}: {name} is stored as {stored}; llmc reads"
                    f" {', '.join(_TORCH_TYPES)}: convert the model to one of these"
                )
            yield name, _TORCH_TYPES[stored], torch.Size(weight.get_shape()).numel()


def _files(folder: Path) -> tuple[Path, ...]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return (single,)
    if index.is_file():
        return _shards(index)
    if any(path.suffix in _PICKLES for path in folder.iterdir()):
        raise UserError(
            f"{folder}: the weights are pickled, which llmc does not open for safety: convert"
            " them to model.safetensors (transformers' save_pretrained does)"
        )
    raise UserError(f"{folder}: there is no model.safetensors in it")


def _shards(index: Path) -> tuple[Path, ...]:
    shard_of = read_json(index).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise UserError(f"{index}: its weight_map is missing")
    for name in shard_of.values():
        # A name with a folder would let a downloaded index read files elsewhere; one that ends in
        # anything else is not among the files that a bundle in the cache is found by.
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or "\\" in name
            or not name.endswith(".safetensors")
        ):
            raise UserError(f"{index}: {name!r} is not the name of a safetensors file")
        if not (index.parent / name).is_file():
            raise UserError(f"{index.parent}: {name} is missing: download the model again")
    return tuple(index.parent / name for name in sorted(set(shard_of.values())))


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is not a whole safetensors file ({one_line(error)}): download it again"
        ) from error


def _wanted(slices: dict[str, Any], layers: int) -> dict[str, Any]:
    """The text model's weights of the first `layers` layers."""
    if any("language_model." in name for name in slices):  # a multimodal model's checkpoint
        slices = {
            name.replace("language_model.", "", 1): value
            for name, value in slices.items()
            if "language_model." in name or name.startswith("lm_head.")
        }
    return {
        name: value
        for name, value in slices.items()
        if not (found := _LAYER.search(name)) or int(found[1]) < layers
    }


def _linears(packed: Mapping[str, PackedLinear], model: PreTrainedModel) -> list[str]:
    """Those of `packed` that are weights of linear layers of `model`, and not merged into others.

    UserError for other weights of the model: those of a convolution may be a matrix transposed.
    """
    linears = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    state = untied_state(model)
    names = [name for name in packed if name in state]
    if others := [name for name in names if name not in linears]:
        raise UserError(f"{packed[others[0]].name} is packed, but is no linear layer of the model")
    return names


def _check(folder: Path, report: dict[str, Any]) -> None:
    if missing := report["missing_keys"]:
        raise UserError(f"{folder}: the safetensors lack {some_of(missing)}")
    if unexpected := report["unexpected_keys"]:
        raise UserError(
            f"{folder}: the model of config.json has no place for {some_of(unexpected)}"
        )
    for name, stored, expected in sorted(report["mismatched_keys"]):
        raise _mismatch(folder, name, stored, expected)
    for message in report["error_msgs"]:
        raise UserError(f"{folder}: cannot load it: {' '.join(message.split())}")


def _mismatch(folder: Path, name: str, stored: Iterable[int], expected: Iterable[int]) -> UserError:
    return UserError(
        f"{folder}: {name} is {shape_text(stored)} in the safetensors,"
        f" {shape_text(expected)} by config.json"
    )


def _told(error: Exception) -> str:
    """What transformers says in an error; of a report that it has printed, nothing is seen."""
    if "CONVERSION" in str(error):
        return "weights that make up one of the model's, as experts do, are missing or do not fit"
    return one_line(error)
