"""GGUF files for llama.cpp: the model's own, or one that llama.cpp's quantiser makes of it."""

from pathlib import Path

from llmc.frontend.bench.apart import made
from llmc.frontend.bench.contender import MissingError, all_bytes
from llmc.frontend.bench.gguf_writer import write_gguf
from llmc.frontend.gguf_file import read_gguf
from llmc.frontend.source import find_model
from llmc.runtime.draft import replacing

_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
# llama.h's numbers of file types.
_FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "BF16": 32,
}


def gguf_file(model: str, weights: str, stored: str, layers: int | None) -> Path:
    """A GGUF file of the model called `model` whose matrices are of the type `weights`.

    `stored` is the type that most of the model's own weights are of, `layers` how many of its
    layers to keep. Files other than the model's own are made once and kept in the cache. Raises
    MissingError where one cannot be made.
    """
    path = find_model(model)
    if path.is_dir():
        path = made(model, {"gguf": layers}, write_gguf, model, layers)
        stored = "F32"
    elif layers is not None:
        raise MissingError("a GGUF file is run with all its layers: leave out --layers")
    if weights == stored:
        return path
    if weights not in _FILE_TYPES:
        raise MissingError(f"llama.cpp's quantiser is not asked for {weights}")
    return made(model, {"gguf": layers, "weights": weights}, quantize, path, weights)


def weight_bytes_per_step(path: Path) -> int | None:
    """The bytes of all tensors, without the embedding where the head is another tensor.

    None as for `Contender`.
    """
    sizes = {name: tensor.data.nbytes for name, tensor in read_gguf(path).tensors.items()}
    if _HEAD in sizes:
        sizes.pop(_EMBEDDING, None)
    return all_bytes(sizes)


def quantize(source: Path, weights: str, output: Path) -> None:
    """Has llama.cpp write the model in the GGUF file `source` with another type of weights.

    Types that are quantised already are dequantised first. Raises MissingError if it fails.
    """
    import llama_cpp

    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = _FILE_TYPES[weights]
    settings.allow_requantize = True
    with replacing(output) as draft:
        paths = (str(path).encode() for path in (source, draft))
        if llama_cpp.llama_model_quantize(*paths, settings):
            raise MissingError(f"llama.cpp's quantiser cannot make {weights} of {source}")
