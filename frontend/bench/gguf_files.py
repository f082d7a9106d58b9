"""GGUF files for llama.cpp: the model's own, or one that llama.cpp's quantiser makes of it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from llmc.frontend.bench.contender import MissingError
from llmc.frontend.file_digests import file_digests
from llmc.frontend.gguf_file import read_gguf
from llmc.frontend.output_folder import writing
from llmc.frontend.source import source_files
from llmc.runtime.paths import cache_root

_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
# llama.h's numbers of file types.
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "BF16": 32}


def gguf_file(model: str, weights: str, stored: str) -> Path:
    """A GGUF file of the model called `model` whose matrices are of the type `weights`.

    `stored` is the type that most of the model's own weights are of; where that is another, the
    file is made once and kept in the cache. Raises MissingError where it cannot be made.
    """
    path = source_files(model)[0]
    if path.suffix != ".gguf":
        raise MissingError("llama.cpp reads GGUF files only")
    if weights == stored:
        return path
    if weights not in _FILE_TYPES:
        raise MissingError(f"llama.cpp's quantiser is not asked for {weights}")
    (digest,) = file_digests([path], cache_root() / "file_digests.json")
    output = cache_root() / "bench" / f"{digest[:32]}-{weights}.gguf"
    if not output.is_file():
        with writing(output):
            output.parent.mkdir(parents=True, exist_ok=True)
        _in_own_process(path, output, weights)
    return output


def weight_bytes_per_step(path: Path) -> int:
    """The bytes of all tensors, without the embedding where the head is another tensor."""
    tensors = read_gguf(path).tensors
    tied = _HEAD not in tensors
    return sum(t.data.nbytes for name, t in tensors.items() if tied or name != _EMBEDDING)


def _in_own_process(source: Path, output: Path, weights: str) -> None:
    """Quantises apart, for the memory it takes is not the contender's, and its failures abort."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        try:
            pool.submit(quantize, source, output, weights).result()
        except BrokenProcessPool as error:
            raise MissingError(f"llama.cpp's quantiser crashed on {source}") from error


def quantize(source: Path, output: Path, weights: str) -> None:
    """Has llama.cpp write the model in the GGUF file `source` with another type of weights.

    Types that are quantised already are dequantised first. Raises MissingError if it fails.
    """
    import llama_cpp

    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = _FILE_TYPES[weights]
    settings.allow_requantize = True
    draft = output.with_suffix(".draft")
    failed = llama_cpp.llama_model_quantize(str(source).encode(), str(draft).encode(), settings)
    if failed:
        raise MissingError(f"llama.cpp's quantiser cannot make {weights} of {source}")
    draft.replace(output)
