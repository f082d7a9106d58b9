"""What every source of models, a Hugging Face folder or a GGUF file, gives to the compiler."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights
from transformers.utils import logging

from llmc.pipelines.parameters import StoredWeight
from llmc.runtime.errors import UserError, one_line
from llmc.runtime.manifest import TokenizerFacts

# What transformers raises on a configuration whose values make no model.
CONFIG_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    StrictDataclassError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model, its weights not read yet.

    `config` is the text model's, cut to the layers asked for. `context` is the most positions that
    the model was made for. `storage` names the element type of most of the weights as they are
    stored: a torch type such as `bfloat16`, or a type of blocks such as `Q4_1`.

    `weights()` reads the weights: by the names of the skeleton's `state_dict`, of tied ones only
    the first, in the element type they are stored in (blocks as float32). UserError if the
    names or shapes are not the skeleton's. `formats` are those of `dialects.blocks` in which the
    matrices that a file has quantised are to be kept, by name.
    """

    name: str
    config: PreTrainedConfig
    context: int
    storage: str
    tokenizer_json: str
    tokenizer: TokenizerFacts
    weights: Callable[[], dict[str, Tensor]]
    formats: Mapping[str, str] = field(default_factory=dict)
    read_blocks: Callable[[], dict[str, StoredWeight]] | None = None
    # Values of the skeleton's buffers that the configuration does not give.
    buffers: Mapping[str, Tensor] = field(default_factory=dict)

    def stored_weights(self) -> dict[str, StoredWeight]:
        """What `weights()` gives, but matrices in a format of `dialects.blocks` as they are."""
        return self.read_blocks() if self.read_blocks else dict(self.weights())

    def skeleton(self, attn_implementation: str | None) -> PreTrainedModel:
        """The model in float32 and eval mode, its parameters uninitialised, its buffers right.

        The parameters' memory is not touched, so that the model costs address space only.
        `attn_implementation` is a name that transformers knows: `eager`, `sdpa`, or one registered
        with its `AttentionInterface`; None is its own choice for the model.
        """
        try:
            model = build(self.config, attn_implementation)
        except CONFIG_ERRORS as error:
            # Such a family chooses among attention classes of its own, by name.
            raise UserError(
                f"{self.name}: the {self.config.model_type} model does not take its attention from "
                "transformers' attention interface: llmc cannot compile it"
            ) from error
        for name, value in self.buffers.items():
            model.get_buffer(name).copy_(value)
        return model


def build(config: PreTrainedConfig, attn_implementation: str | None = "eager") -> PreTrainedModel:
    """The float32 model of `config` in eval mode with uninitialised parameters."""
    with quiet(), no_init_weights():
        model = AutoModelForCausalLM.from_config(
            copy.deepcopy(config),
            dtype=torch.float32,
            attn_implementation=attn_implementation,
            trust_remote_code=False,
        )
    model.tie_weights()  # left out by no_init_weights
    return model.eval()


def outline(config: PreTrainedConfig, source: str) -> PreTrainedModel:
    """The model of `config` on torch's meta device: names and shapes without memory.

    UserError, which begins with `source`, if no model can be built from `config`.
    """
    try:
        with torch.device("meta"):
            return build(config)
    except CONFIG_ERRORS as error:
        raise UserError(f"{source}: no model can be built from it: {one_line(error)}") from error


def untied_state(model: PreTrainedModel) -> dict[str, Tensor]:
    """The model's `state_dict` without the second names of tied weights."""
    tied = model.all_tied_weights_keys
    return {name: value for name, value in model.state_dict().items() if name not in tied}


def truncated(config: PreTrainedConfig, layers: int | None, source: str) -> PreTrainedConfig:
    """`config` with the first `layers` layers only; all of them for None.

    UserError, which begins with `source`, if the model has fewer.
    """
    total = config.num_hidden_layers
    if layers is None or layers == total:
        return config
    if not 0 < layers < total:
        raise UserError(f"{source}: {layers} layers were asked for, the model has {total}")
    values = config.to_dict()
    for key, value in values.items():
        if "layer" in key and isinstance(value, list) and len(value) == total:
            values[key] = value[:layers]
    values[config.attribute_map.get("num_hidden_layers", "num_hidden_layers")] = layers
    with quiet():
        return type(config).from_dict(values)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers' warnings and progress bars off the terminal."""
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def shape_text(shape: Iterable[int]) -> str:
    """`shape` for people, as 32x64."""
    return "x".join(map(str, shape)) or "a scalar"


def some_of(names: Iterable[str], shown: int = 3) -> str:
    """`names` in order, as a list for people that stays on one line."""
    ordered = sorted(names)
    listed = one_line(", ".join(ordered[:shown]))
    return listed if len(ordered) <= shown else f"{listed} and {len(ordered) - shown} more"
