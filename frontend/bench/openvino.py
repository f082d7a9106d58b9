"""OpenVINO as a contender, on a GGUF file as OpenVINO GenAI reads it.

GenAI's reader makes a network with attention and KV cache as OpenVINO's own operations
(https://openvinotoolkit.github.io/openvino.genai/docs/guides/gguf). It is run without GenAI's
pipeline, which times no prefill apart.
"""

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.properties as props
import openvino_genai
from openvino import opset13 as operations
from openvino.utils import replace_node

from llmc.frontend.bench.apart import made
from llmc.frontend.bench.contender import Contender, MissingError, Rows
from llmc.frontend.bench.gguf_files import gguf_file, weight_bytes_per_step
from llmc.frontend.output_folder import appearing

# The names that GenAI gives to what it saves.
_NETWORK, _WEIGHTS = "openvino_model.xml", "openvino_model.bin"

_READ_AS = {"F32": "F16", "BF16": "F16"}


class OpenVINO(Contender):
    """A GGUF model in OpenVINO with its defaults for the CPU at hand.

    The reader knows neither F32 nor BF16, which are made of F16. F32 means weights made float32,
    and float32 arithmetic; BF16 the CPU's default, which is bfloat16 arithmetic where it has that.
    """

    def __init__(
        self, model: str, weights: str, stored: str, layers: int | None, threads: int
    ) -> None:
        """Loads the model called `model`, converted to `weights` unless it is `stored` so.

        Raises MissingError for what the reader does not know, UserError for a model that is none.
        """
        widened = weights == "F32"
        path = gguf_file(model, _READ_AS.get(weights, weights), stored, layers)
        what = {"openvino": ov.get_version(), "file": path.name}
        folder = made(model, what, convert, path)
        self.version = f"openvino {ov.get_version()}"
        self.weights = weights
        size = weight_bytes_per_step(path)
        self.weight_bytes = size and size * (2 if widened else 1)
        core = ov.Core()
        network = core.read_model(folder / _NETWORK)
        _keep_last_token(network)
        settings = {
            props.inference_num_threads: threads,
            props.hint.performance_mode: props.hint.PerformanceMode.LATENCY,
        }
        if widened:
            _widen(network)
            settings[props.hint.inference_precision] = ov.Type.f32
        self._request = core.compile_model(network, "CPU", settings).create_infer_request()

    def clear(self, sequences: int, capacity: int) -> None:
        """Forgets the KV cache, which grows as tokens come."""
        self._request.reset_state()

    def prefill(self, rows: Rows, past: int) -> list[int]:
        """All sequences in one call; only the last token's logits are computed."""
        ids = np.array(rows, np.int64)
        sequences, tokens = ids.shape
        positions = np.arange(past, past + tokens, dtype=np.int64)
        self._request.infer(
            {
                "input_ids": ids,
                "attention_mask": np.ones((sequences, past + tokens), np.int64),
                "position_ids": np.tile(positions, (sequences, 1)),
                "beam_idx": np.arange(sequences, dtype=np.int32),
            },
            share_inputs=True,
        )
        return self._request.get_output_tensor().data[:, -1].argmax(-1).tolist()

    def decode(self, tokens: list[int], past: int) -> list[int]:
        """One step of all sequences."""
        return self.prefill([[token] for token in tokens], past)


def convert(source: Path, output: Path) -> None:
    """Has GenAI write the GGUF file `source` as OpenVINO's network into the folder `output`.

    Raises MissingError for a format or a family that its reader does not know.
    """
    with appearing(output) as folder:
        linked = folder / "model.gguf"
        linked.symlink_to(source)
        try:
            openvino_genai.LLMPipeline(linked, "CPU", enable_save_ov_model=True)
        except (RuntimeError, IndexError) as error:
            # The tokenizer comes after the network, and fails where the file has none.
            if not (folder / _WEIGHTS).exists():
                reason = str(error).strip().splitlines()[-1]
                raise MissingError(f"OpenVINO GenAI cannot read {source}: {reason}") from error
        linked.unlink()


def _keep_last_token(network: ov.Model) -> None:
    """Has the head multiply the last token's row only, as GenAI's pipeline does."""
    head = network.get_results()[0].input_value(0).get_node()
    while head.get_type_name() != "MatMul":
        head = head.input_value(0).get_node()
    bounds = ([-1], [np.iinfo(np.int64).max], [1], [1])
    begin, end, step, axis = (operations.constant(np.array(at, np.int64)) for at in bounds)
    last = operations.slice(head.input_value(0), begin, end, step, axis)
    head.input(0).replace_source_output(last.output(0))


def _widen(network: ov.Model) -> None:
    """Replaces float16 weights, and their conversion at run time, by float32 ones."""
    for node in network.get_ops():
        if node.get_type_name() != "Convert" or node.get_element_type() != ov.Type.f32:
            continue
        source = node.input_value(0).get_node()
        if source.get_type_name() == "Constant" and source.get_element_type() == ov.Type.f16:
            wide = operations.constant(source.get_data().astype(np.float32))
            replace_node(node, wide)
