"""Reads a model from a GGUF file, which has all in one: configuration, weights and tokenizer."""

from functools import partial
from pathlib import Path

from llmc.frontend.gguf_config import read_config
from llmc.frontend.gguf_file import read_gguf
from llmc.frontend.gguf_tokenizer import read_tokenizer
from llmc.frontend.gguf_weights import (
    block_formats,
    find_sources,
    read_blocks,
    read_weights,
    rope_buffers,
    storage,
)
from llmc.frontend.loaded_model import LoadedModel, truncated


def open_gguf(path: Path, layers: int | None = None) -> LoadedModel:
    """The model in the GGUF file at `path`, cut to its first `layers` layers where given.

    UserError if the file is damaged, or its architecture, a tensor's type, its tokenizer or
    anything else in it is not known to llmc.
    """
    file = read_gguf(path)
    config = truncated(read_config(file), layers, str(path))
    sources = find_sources(file, config)
    tokenizer_json, facts = read_tokenizer(file, config.vocab_size)
    return LoadedModel(
        name=path.stem,
        config=config,
        context=config.max_position_embeddings,
        storage=storage(file, sources),
        tokenizer_json=tokenizer_json,
        tokenizer=facts,
        weights=partial(read_weights, file, config, sources),
        formats=block_formats(file, sources),
        read_blocks=partial(read_blocks, file, config, sources),
        buffers=rope_buffers(file, config),
    )
