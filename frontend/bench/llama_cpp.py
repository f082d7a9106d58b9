"""llama.cpp as a contender, through the functions of its C interface.

https://github.com/ggml-org/llama.cpp/blob/master/include/llama.h, bound by llama-cpp-python. Its
Python class samples in Python for every token; this takes the likeliest one with numpy.
"""

import ctypes

import llama_cpp as lib
import numpy as np

from llmc.frontend.bench.contender import Contender, MissingError, Rows
from llmc.frontend.bench.gguf_files import gguf_file, weight_bytes_per_step

# Tokens of one call; llama.cpp's own default.
_BATCH = 2048


class LlamaCpp(Contender):
    """A GGUF model in llama.cpp with its defaults: flash attention where it has it, f16 cache."""

    def __init__(
        self, model: str, weights: str, stored: str, layers: int | None, threads: int
    ) -> None:
        """Loads the model called `model`, converted to `weights` unless it is `stored` so.

        Raises MissingError for what llama.cpp cannot load, UserError for a model that is none.
        """
        _silence()
        lib.llama_backend_init()
        path = gguf_file(model, weights, stored, layers)
        self.version = f"llama-cpp-python {lib.__version__}"
        self.weights = weights
        self.weight_bytes = weight_bytes_per_step(path)
        self._model = lib.llama_model_load_from_file(
            str(path).encode(), lib.llama_model_default_params()
        )
        if not self._model:
            raise MissingError(f"llama.cpp cannot load {path}")
        self._vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self._threads = threads
        self._context = None
        self._batch = lib.llama_batch_init(_BATCH, 0, 1)
        self._made_for = (0, 0)

    def clear(self, sequences: int, capacity: int) -> None:
        """Empties the KV cache, or makes another of the size that is wanted."""
        if self._made_for != (sequences, capacity):
            self._make_context(sequences, capacity)
        lib.llama_memory_clear(lib.llama_get_memory(self._context), True)

    def prefill(self, rows: Rows, past: int) -> list[int]:
        """Sequence after sequence; only the last token's logits are computed."""
        following = []
        for sequence, row in enumerate(rows):
            for at in range(0, len(row), _BATCH):
                piece = row[at : at + _BATCH]
                entries = [(token, past + at + i, sequence) for i, token in enumerate(piece)]
                self._decode(entries, len(entries) - 1)
            following.append(self._likeliest(len(entries) - 1))
        return following

    def decode(self, tokens: list[int], past: int) -> list[int]:
        """One call with a token of each sequence."""
        self._decode([(token, past, sequence) for sequence, token in enumerate(tokens)], 0)
        return [self._likeliest(at) for at in range(len(tokens))]

    def _make_context(self, sequences: int, capacity: int) -> None:
        if self._context is not None:
            lib.llama_free(self._context)
        settings = lib.llama_context_default_params()
        settings.n_ctx = sequences * (-(-capacity // 256) * 256)
        settings.n_batch = _BATCH
        settings.n_seq_max = sequences
        settings.n_threads = settings.n_threads_batch = self._threads
        self._context = lib.llama_init_from_model(self._model, settings)
        if not self._context:
            raise MissingError(
                f"llama.cpp has no room for {sequences} sequences of {capacity} tokens"
            )
        self._made_for = (sequences, capacity)

    def _decode(self, entries: list[tuple[int, int, int]], first_output: int) -> None:
        """Runs tokens, each with its position and sequence; logits from `first_output` on."""
        batch = self._batch
        batch.n_tokens = len(entries)
        for at, (token, position, sequence) in enumerate(entries):
            batch.token[at] = token
            batch.pos[at] = position
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = sequence
            batch.logits[at] = at >= first_output
        if lib.llama_decode(self._context, batch):
            raise RuntimeError("llama_decode failed")

    def _likeliest(self, at: int) -> int:
        logits = lib.llama_get_logits_ith(self._context, at)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())


@lib.llama_log_callback
def _ignore(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """Drops what llama.cpp tells."""


def _silence() -> None:
    lib.llama_log_set(_ignore, ctypes.c_void_p())
