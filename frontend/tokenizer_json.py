"""The last step of reading any tokenizer: fit to the model, and as text."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer

from llmc.frontend.loaded_model import some_of
from llmc.runtime.errors import UserError
from llmc.runtime.tokenizer import load_tokenizer


def fitted_json(tokenizer: Tokenizer, vocab_size: int, source: str) -> str:
    """`tokenizer` as a `tokenizer.json` whose ids are all below `vocab_size`.

    Added tokens beyond the model's vocabulary are left out: Gemma 3's text models, for one, come
    with the multimodal models' image token. UserError, which begins with `source`, if the
    vocabulary proper does not fit, as another model's, or what is left is no tokenizer.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    largest = max((i for token, i in vocabulary.items() if token not in added), default=-1)
    if largest >= vocab_size:
        raise UserError(
            f"{source}: the tokenizer has ids up to {largest}, the model a vocabulary of"
            f" {vocab_size}: they do not belong together"
        )
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["id"] < vocab_size]
    if undefined := set(_undefined_tokens(content["post_processor"], vocab_size)):
        raise UserError(
            f"{source}: the tokenizer adds {some_of(undefined)} to a text, for which the model has"
            " no id"
        )
    content["model"] = _with_lines(content["model"])
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    try:
        load_tokenizer(text)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    return text


def _with_lines(model: dict[str, Any]) -> dict[str, Any]:
    """The merges of a BPE `model` as lines of text, where they can be such.

    `tokenizers` reads pairs as well, but leaves what it read them into strewn over the heap: 2.5 MB
    of the 49,000 merges of SmolLM2, which stay with the process for good.
    """
    lines = [" ".join(pair) for pair in model.get("merges", ())]
    # The parts of a line are found by its one space, and a line may be a comment.
    is_readable = all(line.count(" ") == 1 and not line.startswith("#version") for line in lines)
    return model | {"merges": lines} if lines and is_readable else model


def _undefined_tokens(processor: Any, vocab_size: int) -> Iterator[str]:
    """What a post-processor puts around a text without an id that the model has.

    Without any, `tokenizers` would panic.
    """
    match processor:
        case {"type": "Sequence", "processors": parts}:
            for part in parts:
                yield from _undefined_tokens(part, vocab_size)
        case {"type": "TemplateProcessing", "single": pieces, "special_tokens": defined}:
            special = (piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece)
            for token in special:
                ids = defined[token]["ids"] if token in defined else [vocab_size]
                if any(number >= vocab_size for number in ids):
                    yield token


def known_ids(ids: Iterable[object], vocab_size: int) -> tuple[int, ...]:
    """Those of `ids` that are ids of a vocabulary of this size, each once, in order."""
    valid = (i for i in ids if isinstance(i, int) and 0 <= i < vocab_size)
    return tuple(dict.fromkeys(valid))
