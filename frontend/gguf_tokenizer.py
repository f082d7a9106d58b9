"""The tokenizer of a GGUF file, rebuilt as the tokenizer.json that the file was made from.

transformers' own conversion (`transformers.integrations.gguf`) serves SentencePiece vocabularies;
for byte-level ones it lacks pre-tokenizers (SmolLM's, which splits digits, for one), normalizers
and Llama 3's `ignore_merges`. What a file's `tokenizer.ggml.pre` means is defined by llama.cpp
(llama-vocab.cpp); the rules are those of the models' tokenizer.json.
"""

from typing import TypeVar

from gguf import TokenType
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers.integrations.gguf import convert_gguf_tokenizer
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from llmc.frontend.gguf_file import GgufFile
from llmc.frontend.gguf_layout import GEMMAS
from llmc.frontend.loaded_model import quiet
from llmc.frontend.tokenizer_json import fitted_json, known_ids
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import TokenizerFacts
from llmc.runtime.tokenizer import blaming

_T = TypeVar("_T")

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGITS_FIRST = (
    "codeshell",
    "command-r",
    "exaone",
    "minerva-7b",
    "refact",
    "smollm",
    "starcoder",
)
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
# How text is cut into words before the merges, by `tokenizer.ggml.pre`: one cut after another.
_SPLITS: dict[str, tuple[str, ...]] = {
    **{pre: (regex,) for pre, regex in GGUF_PRE_TOKENIZER_SPLITS.items()},
    **dict.fromkeys(_DIGITS_FIRST, (r"\p{N}", _GPT2)),
    **dict.fromkeys(("exaone4", "gpt-2", "jais", "mpt", "olmo", "phi-2", "trillion"), (_GPT2,)),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), _DEEPSEEK_V3),
    "stablelm2": (GGUF_PRE_TOKENIZER_SPLITS["qwen2"],),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
_COMPOSED = {"qwen2", "qwen35"}
# A word that is in the vocabulary is one token, merges or not; and a text begins with BOS.
_LIKE_LLAMA3 = {
    "falcon-h1",
    "falcon3",
    "jina-v5-nano",
    "lfm2",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "midm-2.0",
    "pixtral",
    "tekken",
}
# Tokens that end a turn, which older files do not name in their metadata (as in llama.cpp).
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>")


def read_tokenizer(file: GgufFile, vocab_size: int) -> tuple[str, TokenizerFacts]:
    """The file's tokenizer as the text of a `tokenizer.json`, and its facts.

    `vocab_size` is the model's. UserError if the file has no tokenizer, or one of a kind that is
    not known here, or one that does not fit the model.
    """
    tokens = _list(file, "tokens", str)
    types = _list(file, "token_type", int, len(tokens))
    kind = file.value("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise UserError(
            f"{file.path}: its tokenizer is of kind {kind!r}; llmc reads 'gpt2' and 'llama'"
        )
    build = _byte_level if kind == "gpt2" else _sentencepiece
    bos, eos = (_special_id(file, name, len(tokens), vocab_size) for name in ("bos", "eos"))
    with blaming(f"{file.path}: its tokenizer is damaged"), quiet():
        tokenizer = build(file, tokens, types)
        _frame(tokenizer, file, tokens, bos, eos)
    turn_ends = [_special_id(file, name, len(tokens), vocab_size) for name in ("eot", "eom")]
    turn_ends += [
        index
        for index, token in enumerate(tokens)
        if token in _TURN_ENDS and types[index] == TokenType.CONTROL
    ]
    template = file.metadata.get("tokenizer.chat_template")
    return fitted_json(tokenizer, vocab_size, str(file.path)), TokenizerFacts(
        bos_token=None if bos is None else tokens[bos],
        eos_token=None if eos is None else tokens[eos],
        bos_token_id=bos,
        eos_token_ids=known_ids([eos, *turn_ends], vocab_size),
        chat_template=template if isinstance(template, str) and template else None,
    )


def _byte_level(file: GgufFile, tokens: list[str], types: list[int]) -> Tokenizer:
    pre = _pre(file)
    if pre not in _SPLITS:
        raise UserError(f"{file.path}: its pre-tokenizer {pre!r} is not known to llmc")
    merges = [
        (left, right)
        for left, _, right in (merge.partition(" ") for merge in _list(file, "merges", str))
    ]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    model = models.BPE(vocabulary, merges, ignore_merges=pre in _LIKE_LLAMA3)
    tokenizer = Tokenizer(model)
    if pre in _COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(regex), "isolated") for regex in _SPLITS[pre]),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(token, normalized=False, special=type_ == TokenType.CONTROL)
            for token, type_ in zip(tokens, types, strict=True)
            if type_ in (TokenType.CONTROL, TokenType.USER_DEFINED)
        ]
    )
    return tokenizer


def _sentencepiece(file: GgufFile, tokens: list[str], types: list[int]) -> Tokenizer:
    vocabulary = {
        "tokenizer_type": "llama",
        "tokens": tokens,
        "token_type": types,
        "scores": _list(file, "scores", float, len(tokens)),
    }
    tokenizer, _ = convert_gguf_tokenizer(file.architecture, vocabulary)
    if file.architecture not in GEMMAS:
        _escape_spaces(tokenizer, file.value("tokenizer.ggml.add_space_prefix", bool, True))
    return tokenizer


def _escape_spaces(tokenizer: Tokenizer, prefix: bool) -> None:
    """Treats spaces as Llama 2 does; `prefix` puts one before each text."""
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), replace] if prefix else [replace]
    )
    tokenizer.pre_tokenizer = None
    undo = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*undo, decoders.Strip(" ", 1, 0)] if prefix else undo)


def _frame(
    tokenizer: Tokenizer, file: GgufFile, tokens: list[str], bos: int | None, eos: int | None
) -> None:
    """Lets the tokenizer put BOS before a text and EOS after it where the file says so."""
    sentencepiece = file.value("tokenizer.ggml.model", str) == "llama"
    adds_bos = sentencepiece or _pre(file) in _LIKE_LLAMA3
    pieces, special = ["$A"], []
    if bos is not None and file.value("tokenizer.ggml.add_bos_token", bool, adds_bos):
        pieces.insert(0, tokens[bos])
        special.append((tokens[bos], bos))
    if eos is not None and file.value("tokenizer.ggml.add_eos_token", bool, False):
        pieces.append(tokens[eos])
        special.append((tokens[eos], eos))
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=pieces, special_tokens=special
        )


def _pre(file: GgufFile) -> str:
    return file.value("tokenizer.ggml.pre", str, "default")


def _list(file: GgufFile, name: str, kind: type[_T], length: int | None = None) -> list[_T]:
    """The list `tokenizer.ggml.<name>`; UserError if of other elements or another length."""
    values = file.value(f"tokenizer.ggml.{name}", list)
    if not all(type(value) is kind for value in values):
        raise UserError(f"{file.path}: tokenizer.ggml.{name} is not a list of {kind.__name__}")
    if length is not None and len(values) != length:
        raise UserError(
            f"{file.path}: tokenizer.ggml.{name} has {len(values)} entries for {length} tokens"
        )
    return values


def _special_id(file: GgufFile, name: str, token_count: int, vocab_size: int) -> int | None:
    """The id that the file gives, None without one, or without a row for it in the model.

    UserError if it is none of the file's tokens.
    """
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in file.metadata:
        return None
    index = file.value(key, int)
    if not 0 <= index < token_count:
        raise UserError(f"{file.path}: {key} is {index}, there are {token_count} tokens")
    return index if index < vocab_size else None
