"""Runs a compiled module: tokens in, what follows them out. Its interface is in abi.py."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import iree.runtime as rt
import numpy as np

from llmc.runtime import abi
from llmc.runtime.errors import UserError
from llmc.runtime.vm_function import Integers, Results, VmFunction

# A prompt is run in pieces of so many tokens, which bounds the memory of their activations.
PREFILL_CHUNK = 128

# Entered around each call that the engines of all ranks make, given its name and arguments.
Together = Callable[..., AbstractContextManager[None]]


def alone(name: str, *arguments: object) -> AbstractContextManager[None]:
    """The call of an engine that is the only one."""
    return nullcontext()


class Output:
    """What a call computed for B sequences.

    `best` is the most likely token of each, -1 where its logit is NaN or infinite. The logits stay
    on the device until they are asked for.
    """

    def __init__(
        self,
        best: list[int],
        results: Results,
        top_k: VmFunction | None,
        together: Together = alone,
    ) -> None:
        """`top_k` is the module's function of this name, where it has one."""
        self.best = best
        self._results = results
        self._top_k = top_k
        self._together = together
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
            with self._together("top", count, row):
                self._top[count] = self._find_top(count)
        tokens, values = self._top[count]
        each = len(tokens) // len(self.best)
        of_row = slice(row * each, (row + 1) * each)
        return tokens[of_row], values[of_row]

    def _find_top(self, count: int) -> tuple[list[int], list[float]]:
        if self._top_k is None:
            return _largest(self.logits, count)
        logits = self._results.view(0)
        found = self._top_k(logits, min(count, logits.shape[1]))
        return found.integers(1), found.floats(0)


@dataclass(frozen=True)
class Memory:
    """What a device has and what a model takes of it, in bytes; None where that is unknown."""

    device: int | None
    weights: int
    kv_per_token: int

    def require(self, sequences: int, capacity: int) -> None:
        """UserError where a KV cache for so many sequences of so many tokens does not fit."""
        needed = self.weights + sequences * capacity * self.kv_per_token
        if self.device is not None and needed > self.device:
            raise UserError(
                f"{sequences * capacity} tokens need {needed >> 20} MiB of the device's memory, of "
                f"{self.device >> 20}: give a smaller --context or --dtype"
            )


class Engine:
    """A loaded module with its weights and its KV cache.

    A CPU maps the weights from the archive and reads none. One engine serves one caller at a time.
    """

    def __init__(
        self,
        module: Path,
        parameters: Path,
        device: rt.HalDevice,
        integers: Integers = "i64",
        memory: Memory | None = None,
        queues_steps: bool = True,
        together: Together = alone,
        imports: Sequence[rt.VmModule] = (),
    ) -> None:
        """Loads the module, whose integers are of the type `integers`, on `device`.

        With `queues_steps` the device may be given a step before the last one is done. `imports`
        are modules that this one calls. Raises UserError where IREE refuses the module, or `memory`
        does not suffice for it.
        """
        self._together = together
        self._memory = memory
        self._queues_steps = queues_steps
        if memory is not None:
            memory.require(1, 1)
        config = rt.Config(device=device)
        instance = config.vm_instance
        try:
            index = rt.ParameterIndex()
            index.load(str(parameters))
            weights = rt.create_io_parameters_module(
                instance, index.create_provider(scope=abi.PARAMETER_SCOPE)
            )
            # Not mapped: where an exception passes by, IREE 3.13 hides it with a SystemError when
            # it lets go of a mapped module.
            program = rt.VmModule.copy_buffer(instance, module.read_bytes())
            hal = rt.create_hal_module(instance, device)
            self._context = rt.VmContext(instance, modules=[weights, hal, *imports, program])
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(f"{module.parent}: IREE cannot load it: {_brief(error)}") from error
        self._claims = 0
        self._starts: list[int] = []  # those of the last call, for the next one mostly has the same
        self._uploaded_starts: rt.HalBufferView | None = None
        self._chosen: list[int] = []  # by the last call, and mostly what the next one is given
        self._chosen_view: rt.HalBufferView | None = None
        self._functions = {
            name: VmFunction(self._context, device, function, integers)
            for name in abi.FUNCTIONS
            if (function := program.lookup_function(name)) is not None
        }

    def reset(self, sequences: int, capacity: int) -> int:
        """Forgets all tokens and makes room for `sequences` of up to `capacity` columns.

        Returns what `claim` does. UserError where the device has not enough memory.
        """
        if self._memory is not None:
            self._memory.require(sequences, capacity)
        with self._together("reset", sequences, capacity):
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
        with self._together("prefill", tokens, past, sequence, start):
            for at in range(0, len(tokens), PREFILL_CHUNK):
                piece = tokens[at : at + PREFILL_CHUNK]
                function = abi.DECODE if len(piece) == 1 else abi.PREFILL
                new = self._functions[function].upload(piece, 1, len(piece))
                output = self._run(function, new, [start], sequence, past + at)
        return output

    def decode(self, tokens: list[int], past: int, starts: list[int]) -> Output:
        """Runs one token of each sequence in column `past`; what follows each."""
        function = abi.DECODE if len(tokens) == 1 else abi.DECODE_BATCH
        with self._together("decode", tokens, past, starts):
            return self._run(function, self._given(tokens), starts, 0, past)

    def greedy(
        self, tokens: list[int], past: int, starts: list[int], count: int
    ) -> list[list[int]]:
        """Runs `count` tokens of each sequence in columns `past` on, each the best after the last.

        Returns the best tokens after each, as `decode` does, but fewer where the module has no
        function for several, or the device takes one at a time.
        """
        name = abi.GREEDY if len(tokens) == 1 else abi.GREEDY_BATCH
        if count == 1 or name not in self._functions or not self._queues_steps:
            return [self.decode(tokens, past, starts).best]
        with self._together("greedy", tokens, past, starts, count):
            results = self._call(name, self._given(tokens), starts, 0, past, count)
        found = results.integers(0)
        steps = [found[at : at + len(tokens)] for at in range(0, len(found), len(tokens))]
        self._keep(steps[-1], results)
        return steps

    def _run(
        self, name: str, new: rt.HalBufferView, starts: list[int], sequence: int, past: int
    ) -> Output:
        results = self._call(name, new, starts, sequence, past)
        best = results.integers(1)
        self._keep(best, results)
        return Output(best, results, self._functions.get(abi.TOP_K), self._together)

    def _call(self, name: str, new: rt.HalBufferView, starts: list[int], *integers: int) -> Results:
        function = self._functions[name]
        if starts != self._starts:
            self._starts = list(starts)
            self._uploaded_starts = function.upload(starts, len(starts))
        return function(new, self._uploaded_starts, *integers)

    def _keep(self, chosen: list[int], results: Results) -> None:
        """Remembers the last tokens that a call chose, and where they lie on the device."""
        self._chosen = list(chosen)
        self._chosen_view = results.view(1)

    def _given(self, tokens: list[int]) -> rt.HalBufferView:
        """One token of each sequence as an argument."""
        if tokens == self._chosen:
            return self._chosen_view
        return self._functions[abi.DECODE].upload(tokens, len(tokens), 1)


def _largest(logits: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    """What `top_k` of the interface returns, row after row."""
    count = min(count, logits.shape[1])
    tokens = np.empty((len(logits), count), np.int64)
    for row, found in zip(logits, tokens, strict=True):
        candidates = np.flatnonzero(row >= np.partition(row, -count)[-count])
        found[:] = candidates[np.argsort(-row[candidates], kind="stable")[:count]]
    return tokens.ravel().tolist(), np.take_along_axis(logits, tokens, 1).ravel().tolist()


def _brief(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
