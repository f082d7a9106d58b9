"""Small tokenizers of the kinds that language models use, as the text of their tokenizer.json."""

from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

from llmc.frontend.sample import sample_path
from llmc.runtime import tokenizer as runtime
from llmc.runtime.manifest import TokenizerFacts

TEXTS = (
    "Hello world! The quick brown fox jumps over the lazy dog.",
    "  two  spaces,\ttabs\n\n\nand lines \r\n",
    "naïve café, Ελληνικά, русский текст, עברית",
    "你好世界。こんにちは 세계",
    "emoji 👍🏽 👨‍👩‍👧 and 𐍈𐍉 \u0000 \ufffd",
    "def f(x):\n    return x**2 + 3.14159  # 1234567890",
    "",
    " ",
    "<s> looks special </s>",
)
SPECIAL = ("<unk>", "<s>", "</s>")


@cache
def smollm2() -> tuple[str, TokenizerFacts]:
    """The tokenizer inside the sample model's GGUF file."""
    architecture, vocabulary, config = get_gguf_tokenizer(sample_path())
    backend, _ = convert_gguf_tokenizer(architecture, vocabulary)
    facts = TokenizerFacts(
        bos_token=config["bos_token"],
        eos_token=config["eos_token"],
        bos_token_id=vocabulary["bos_token_id"],
        eos_token_ids=(vocabulary["eos_token_id"],),
        chat_template=config["chat_template"],
    )
    return backend.to_str(), facts


@cache
def byte_level() -> str:
    """Byte-level BPE, as in GPT-2 and Llama 3; starts a text with `<s>`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer.to_str()


@cache
def byte_fallback(metaspace_decoder: bool = False) -> str:
    """SentencePiece's BPE with byte fallback, as in Llama 2; either of the two decoders in use."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=150, limit_alphabet=60, special_tokens=list(SPECIAL), show_progress=False
    )
    trained.train_from_iterator([TEXTS[0], TEXTS[1], TEXTS[5]], trainer)
    pieces = [trained.id_to_token(i) for i in range(trained.get_vocab_size())]
    vocabulary = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces[len(SPECIAL) :]]
    known = set(vocabulary)
    merges = [(a, b) for a in pieces for b in pieces if a + b in known]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate(vocabulary)},
            merges=merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    if metaspace_decoder:
        tokenizer.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]
        )
    else:
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer.to_str()


NO_FACTS = TokenizerFacts(None, None, None, (), None)


def ids_of(tokenizer: runtime.Tokenizer, *pieces: str) -> list[int]:
    ids = {tokenizer.piece(i): i for i in range(600)}
    return [ids[piece] for piece in pieces]
