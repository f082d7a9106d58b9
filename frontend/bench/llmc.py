"""A module that IREE runs as a contender: llmc's own bundle."""

from functools import partial
from importlib.metadata import version
from pathlib import Path

from llmc.frontend.bench.contender import Contender, Rows, all_bytes
from llmc.runtime.archive import map_archive
from llmc.runtime.engine import Engine
from llmc.runtime.hal_device import cpu_device
from llmc.runtime.queued_steps import QueuedSteps

_EMBEDDINGS, _HEAD = ("embed_tokens", "embed_in", "wte"), "lm_head"
# The bits of a head that are read for few tokens only: see `llmc.dialects.block_parts`.
_SPARED = ".low"


class Compiled(Contender):
    """A compiled model, run through the same engine as `llmc run`."""

    def __init__(
        self, module: str, parameters: str, vocabulary: int, weights: str, threads: int
    ) -> None:
        """Opens the files `module` and `parameters`; most matrices are of the type `weights`."""
        archive = Path(parameters)
        self.version = f"iree-base-runtime {version('iree-base-runtime')}"
        self.weights = weights
        self.weight_bytes = _bytes_per_step(archive)
        self._engine = Engine(Path(module), archive, cpu_device(threads), vocabulary)

    def clear(self, sequences: int, capacity: int) -> None:
        """Allocates the KV cache."""
        self._engine.reset(sequences, capacity)

    def prefill(self, rows: Rows, past: int) -> list[int]:
        """As `llmc run` does it, the end of several perhaps together."""
        return self._engine.prefill_batch([*map(list, rows)], [0] * len(rows), past).best

    def decode(self, tokens: list[int], past: int) -> list[int]:
        """One step of all sequences."""
        return self._engine.decode(tokens, past, [0] * len(tokens)).best

    def generate(self, tokens: list[int], past: int, count: int) -> list[list[int]]:
        """As `llmc run` does it, some steps in a call."""
        queued = QueuedSteps()
        starts = [0] * len(tokens)
        steps = [tokens]
        while (done := len(steps) - 1) < count:
            call = partial(self._engine.greedy, steps[-1], past + done, starts)
            steps += queued.run(call, count - done)
        return steps[1:]


def _bytes_per_step(archive: Path) -> int | None:
    """The bytes of the archive that a greedy step of one sequence reads.

    That is without the embedding, where the head is another weight. None as for `Contender`.
    """
    index = map_archive(archive)
    sizes = {name: entry.length for name, entry in index.items() if not name.endswith(_SPARED)}
    tied = not any(_HEAD in name for name in sizes)
    read = {
        name: size
        for name, size in sizes.items()
        if tied or not any(embedding in name for embedding in _EMBEDDINGS)
    }
    return all_bytes(read)
