"""Runs a compiled module: tokens in, what follows them out. Its interface is in abi.py."""

from functools import cache, cached_property
from pathlib import Path

import iree.runtime as rt
import numpy as np

from llmc.runtime import abi
from llmc.runtime.errors import UserError
from llmc.runtime.vm_function import Results, VmFunction, numbers
from llmc.runtime.worker_cpus import worker_cpus

# A prompt is run in pieces of so many tokens, which bounds the memory of their activations.
PREFILL_CHUNK = 128


class Output:
    """What a call computed for B sequences.

    `best` is the most likely token of each, -1 where its logit is NaN or infinite. The logits stay
    on the device until they are asked for.
    """

    def __init__(self, best: list[int], results: Results, top_k: VmFunction) -> None:
        """`top_k` is the module's function of this name."""
        self.best = best
        self._results = results
        self._top_k = top_k
        self._top: dict[int, tuple[list[int], list[float]]] = {}

    @cached_property
    def logits(self) -> np.ndarray:
        """Logits `[B, V]`, float32, of the next token."""
        return self._results.read(0, np.float32)

    def top(self, count: int, row: int) -> tuple[list[int], list[float]]:
        """The tokens of sequence `row` with the `count` largest logits, descending, and these.

        All where the vocabulary has no more. Undefined where `best` is -1.
        """
        if count not in self._top:  # the sequences of a batch all ask
            logits = self._results.view(0)
            found = self._top_k(logits, min(count, logits.shape[1]))
            self._top[count] = numbers(found.view(1), "q"), numbers(found.view(0), "f")
        tokens, values = self._top[count]
        each = len(tokens) // len(self.best)
        of_row = slice(row * each, (row + 1) * each)
        return tokens[of_row], values[of_row]


class Engine:
    """A loaded module with its weights and its KV cache.

    The weights are mapped from the archive, not read. One engine serves one caller at a time.
    """

    def __init__(self, module: Path, parameters: Path, threads: int) -> None:
        """Loads the module. Raises UserError where IREE refuses it."""
        device = cpu_device(threads)
        config = rt.Config(device=device)
        instance = config.vm_instance
        try:
            index = rt.ParameterIndex()
            index.load(str(parameters))
            weights = rt.create_io_parameters_module(
                instance, index.create_provider(scope=abi.PARAMETER_SCOPE)
            )
            program = rt.VmModule.mmap(instance, str(module))
            hal = rt.create_hal_module(instance, device)
            self._context = rt.VmContext(instance, modules=[weights, hal, program])
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{module.parent}: IREE cannot load it: {_brief(error)}") from error
        self._claims = 0
        self._starts: list[int] = []  # those of the last call, for the next one mostly has the same
        self._uploaded_starts: rt.HalBufferView | None = None
        self._chosen: list[int] = []  # by the last call, and mostly what the next one is given
        self._chosen_view: rt.HalBufferView | None = None
        self._functions = {
            name: VmFunction(self._context, device, program.lookup_function(name))
            for name in (abi.RESET, abi.PREFILL, abi.DECODE, abi.DECODE_BATCH, abi.TOP_K)
        }

    def reset(self, sequences: int, capacity: int) -> int:
        """Forgets all tokens and makes room for `sequences` of up to `capacity` columns.

        Returns what `claim` does.
        """
        self._functions[abi.RESET](1, 1)  # lets the old cache go before there is a new one
        self._functions[abi.RESET](sequences, capacity)
        return self.claim()

    def claim(self) -> int:
        """Takes the cache as it is from whoever used it. Returns the claim, for `holds`."""
        self._claims += 1
        return self._claims

    def holds(self, claim: int) -> bool:
        """Whether nobody took the cache since `claim` was made."""
        return claim == self._claims

    def require(self, claim: int) -> None:
        """Raises UserError if somebody took the cache since `claim` was made."""
        if not self.holds(claim):
            raise UserError("another generation took this model's KV cache: load the model twice")

    def prefill(self, tokens: list[int], past: int, sequence: int = 0, start: int = 0) -> Output:
        """Runs `tokens` of one sequence in columns `past` on; what follows the last one."""
        for at in range(0, len(tokens), PREFILL_CHUNK):
            piece = tokens[at : at + PREFILL_CHUNK]
            function = abi.DECODE if len(piece) == 1 else abi.PREFILL
            new = self._functions[function].upload(piece, 1, len(piece))
            output = self._run(function, new, [start], sequence, past + at)
        return output

    def decode(self, tokens: list[int], past: int, starts: list[int]) -> Output:
        """Runs one token of each sequence in column `past`; what follows each."""
        function = abi.DECODE if len(tokens) == 1 else abi.DECODE_BATCH
        new = self._chosen_view
        if tokens != self._chosen:
            new = self._functions[function].upload(tokens, len(tokens), 1)
        return self._run(function, new, starts, 0, past)

    def _run(
        self, name: str, new: rt.HalBufferView, starts: list[int], sequence: int, past: int
    ) -> Output:
        function = self._functions[name]
        if starts != self._starts:
            self._starts = list(starts)
            self._uploaded_starts = function.upload(starts, len(starts))
        results = function(new, self._uploaded_starts, sequence, past)
        self._chosen_view = results.view(1)
        self._chosen = numbers(self._chosen_view, "q")
        return Output(list(self._chosen), results, self._functions[abi.TOP_K])


@cache
def cpu_device(threads: int) -> rt.HalDevice:
    """A CPU device with so many workers; IREE reads the flags when it makes its first driver."""
    rt.flags.parse_flags(topology_flag(threads))
    return rt.get_driver("local-task").create_default_device()


def topology_flag(threads: int) -> str:
    """IREE's flag for so many workers, each on a CPU of its own where there are enough."""
    if cpus := worker_cpus(threads):
        return f"--task_topology_cpu_ids={','.join(map(str, cpus))}"
    return f"--task_topology_group_count={threads}"


def _brief(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
