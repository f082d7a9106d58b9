"""A model that is in memory already, as the compiler wants to be given it."""

from transformers import PreTrainedModel

from llmc.frontend.loaded_model import LoadedModel, untied_state
from llmc.runtime.manifest import TokenizerFacts
from tests.tiny_models import tiny_tokenizer


def as_loaded(model: PreTrainedModel) -> LoadedModel:
    """`model` with `tiny_tokenizer`, which never ends a text."""
    return LoadedModel(
        name=model.config.model_type,
        config=model.config,
        context=model.config.max_position_embeddings,
        storage="float32",
        tokenizer_json=tiny_tokenizer().to_str(),
        tokenizer=TokenizerFacts(None, None, None, (), None),
        weights=lambda: untied_state(model),
    )
