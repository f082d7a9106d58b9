"""The tokenizer of a Hugging Face folder, through transformers where there is no tokenizer.json."""

from pathlib import Path

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from llmc.frontend.loaded_model import quiet
from llmc.frontend.text_files import read_json
from llmc.frontend.tokenizer_json import fitted_json, known_ids
from llmc.runtime.errors import UserError, one_line
from llmc.runtime.manifest import TokenizerFacts
from llmc.runtime.tokenizer import blaming

_VOCABULARIES = ("tokenizer.json", "*.model", "*.tiktoken", "vocab.json", "vocab.txt")


def read_tokenizer(folder: Path, config: PreTrainedConfig) -> tuple[str, TokenizerFacts]:
    """The text of a `tokenizer.json` that tokenizes as transformers does, and its facts.

    The ids that end a text are those of generation_config.json, config.json and the tokenizer.
    UserError if there is no tokenizer, or none that transformers reads or that fits the model.
    """
    # transformers would make an empty tokenizer out of nothing.
    if not any(any(folder.glob(pattern)) for pattern in _VOCABULARIES):
        raise UserError(f"{folder}: there is no tokenizer in it: add the model's tokenizer.json")
    tokenizer = _load(folder, config)
    bos_ids = known_ids([tokenizer.bos_token_id], config.vocab_size)
    eos_ids = [*_eos_ids(folder, config), tokenizer.eos_token_id]
    return fitted_json(tokenizer.backend_tokenizer, config.vocab_size, str(folder)), TokenizerFacts(
        bos_token=tokenizer.bos_token if bos_ids else None,
        eos_token=tokenizer.eos_token,
        bos_token_id=bos_ids[0] if bos_ids else None,
        eos_token_ids=known_ids(eos_ids, config.vocab_size),
        chat_template=_chat_template(tokenizer),
    )


def _load(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    if (path := folder / "tokenizer.json").is_file():
        with blaming(f"{path} is not a tokenizer"):
            Tokenizer.from_file(str(path))
    if (path := folder / "tokenizer_config.json").is_file():
        read_json(path)
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(
                folder, config=config, local_files_only=True, trust_remote_code=False
            )
    except (
        AttributeError,
        ImportError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise UserError(
            f"{folder}: transformers cannot read the tokenizer ({one_line(error)}): add the"
            " model's tokenizer.json"
        ) from error
    if not tokenizer.is_fast:
        raise UserError(f"{folder}: its tokenizer has no tokenizer.json form: add that file")
    return tokenizer


def _eos_ids(folder: Path, config: PreTrainedConfig) -> list[object]:
    path = folder / "generation_config.json"
    stated = [read_json(path).get("eos_token_id") if path.is_file() else None, config.eos_token_id]
    return [i for ids in stated for i in (ids if isinstance(ids, list) else [ids])]


def _chat_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    template = tokenizer.chat_template
    if isinstance(template, dict):  # several, by name
        template = template.get("default")
    return template if isinstance(template, str) and template else None
