"""Runs a compiled module: tokens in, what follows them out. Its interface is in abi.py."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import iree.runtime as rt
import numpy as np

from llmc.runtime import abi
from llmc.runtime.archive import map_archive
from llmc.runtime.errors import IREE_ERRORS, UserError, first_line
from llmc.runtime.room import Room
from llmc.runtime.runner import Output, Runner, Together, Top, alone, joined
from llmc.runtime.vm_function import Integers, Results, VmFunction

# A prompt is run in pieces of so many tokens, which bounds the memory of their activations.
PREFILL_CHUNK = 128

# What IREE keeps of a function, as in `%input0: tensor<1x1xi64>, .. -> (%output0: tensor<1x9xf32>`.
_DECLARATION = re.compile(
    r"%input0: tensor<[\dx?]*x(?P<integers>i32|i64)>.* -> "
    r"\(%output0: tensor<[\dx?]*x(?P<logits>\d+)xf32>"
)


@dataclass(frozen=True)
class Memory:
    """What a device has and what a model takes of it, in bytes; None where that is unknown.

    `kv_bytes` is what a KV cache takes of one sequence, by its tokens, and `kv_room` how many it
    then has room for.
    """

    device: int | None
    weights: int
    kv_bytes: Callable[[int], int]
    kv_room: Callable[[int], int] = int

    def require(self, sequences: int, capacity: int) -> None:
        """UserError where a KV cache for so many sequences of so many tokens does not fit."""
        needed = self.weights + sequences * self.kv_bytes(capacity)
        if self.device is not None and needed > self.device:
            raise UserError(
                f"{sequences * capacity} tokens need {needed >> 20} MiB of the device's memory, of "
                f"{self.device >> 20}: give fewer, or compile with a smaller --context or --dtype"
            )


class Engine(Runner):
    """A loaded module with its weights and its KV cache.

    A CPU maps the weights from the archive and reads none.
    """

    def __init__(
        self,
        module: Path,
        parameters: Path,
        device: rt.HalDevice,
        vocabulary: int,
        integers: Integers = "i64",
        memory: Memory | None = None,
        queues_steps: bool = True,
        together: Together = alone,
        imports: Sequence[rt.VmModule] = (),
        unread: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Loads the module, whose integers are of the type `integers`, on `device`.

        Of tokens there are `vocabulary`. With `queues_steps` the device may be given a step before
        the last one is done. `imports` are modules that this one calls; `unread` is entered around
        calls whose results no rank needs. Raises UserError where IREE refuses the module, or
        `memory` does not suffice for it.
        """
        super().__init__(vocabulary)
        self._together = together
        self._memory = memory
        self._queues_steps = queues_steps
        self._unread = unread
        if memory is not None:
            memory.require(1, 1)
        config = rt.Config(device=device)
        instance = config.vm_instance
        try:
            provider = map_archive(parameters).create_provider(scope=abi.PARAMETER_SCOPE)
            weights = rt.create_io_parameters_module(instance, provider)
            # Not mapped: where an exception passes by, IREE 3.13 hides it with a SystemError when
            # it lets go of a mapped module.
            program = rt.VmModule.copy_buffer(instance, module.read_bytes())
            hal = rt.create_hal_module(instance, device)
            self._context = rt.VmContext(instance, modules=[weights, hal, *imports, program])
        except IREE_ERRORS as error:
            reason = first_line(error)
            raise UserError(f"{module.parent}: IREE cannot load it: {reason}") from error
        # The sequences and the columns of each that are allocated.
        self._cache = 0, 0
        # Those of the last call, for the next one mostly has the same, and where they lie.
        self._starts: tuple[list[int], rt.HalBufferView | None] = [], None
        # By the last call, and mostly what the next one is given.
        self._chosen: tuple[list[int], rt.HalBufferView | None] = [], None
        _check_declaration(module, program, vocabulary, integers)
        self._functions = {
            name: VmFunction(self._context, device, function, integers)
            for name in abi.FUNCTIONS
            if (function := program.lookup_function(name)) is not None
        }
        if missing := [name for name in abi.NEEDED if name not in self._functions]:
            raise UserError(f"{module.parent}: {module.name} lacks {missing[0]}: compile it again")

    def require_room(self, sequences: int, capacity: int) -> None:
        """UserError where the device has not enough memory for what `reset` allocates."""
        if self._memory is not None:
            self._memory.require(sequences, capacity)

    def reset(self, sequences: int, capacity: int) -> int:
        """In the device's memory. A cache that is there is used again if it has the room.

        It has the columns of whole cells, in layers too whose keys and values are in none.
        """
        self.require_room(sequences, capacity)
        columns = self._memory.kv_room(capacity) if self._memory is not None else capacity
        with self.lock, self._together("reset", sequences, capacity):
            claim = self.claim()
            self.room = Room(self.room.vocabulary)  # none, should it fail
            if not self._has_room(sequences, columns):
                self._allocate(0, 0)  # lets the old cache go before there is a new one
                self._allocate(sequences, columns)
            self.room = replace(self.room, sequences=sequences, capacity=capacity)
        return claim

    def prefill(self, tokens: list[int], past: int, sequence: int = 0, start: int = 0) -> Output:
        """By pieces of PREFILL_CHUNK."""
        self.room.require_sequence(tokens, past, sequence, start)
        with self._together("prefill", tokens, past, sequence, start):
            return self._prefill(tokens, past, sequence, start)

    def prefill_batch(self, prompts: list[list[int]], starts: list[int], past: int = 0) -> Output:
        """One after another, but for the end, which is joined where it is short."""
        self.room.require_batch(prompts, past, starts)
        with self._together("prefill_batch", prompts, starts, past):
            end = self._columns_to_join(prompts)
            wholes = [tokens[: len(tokens) - end] for tokens in prompts]
            outputs = [
                self._prefill(tokens, past, sequence, start)
                for sequence, (tokens, start) in enumerate(zip(wholes, starts, strict=True))
                if tokens
            ]
            if end:
                ends = [tokens[-end:] for tokens in prompts]
                return self._prefill_joined(ends, starts, past + len(wholes[0]))
        return joined(outputs, self._together)

    def decode(self, tokens: list[int], past: int, starts: list[int]) -> Output:
        """By the function for one, or the one for several."""
        self.room.require_batch([[token] for token in tokens], past, starts)
        function = abi.DECODE if len(tokens) == 1 else abi.DECODE_BATCH
        with self._together("decode", tokens, past, starts):
            return self._run(function, self._given(tokens), starts, 0, past)

    def greedy(
        self, tokens: list[int], past: int, starts: list[int], count: int
    ) -> list[list[int]]:
        """In one call, where there is a function for that."""
        self.room.require_batch([[token] for token in tokens], past, starts)
        self.room.require_columns(past, count)
        name = abi.GREEDY if len(tokens) == 1 else abi.GREEDY_BATCH
        if name not in self._functions or not self._queues_steps:
            return [self.decode(tokens, past, starts).best]
        with self._together("greedy", tokens, past, starts, count):
            results = self._call(name, self._given(tokens), starts, 0, past, count)
        return self._steps(results, len(tokens))

    def sample(
        self,
        tokens: list[int],
        past: int,
        starts: list[int],
        top_k: int,
        options: list[float],
        random: list[list[float]],
    ) -> list[list[int]]:
        """In one call."""
        self.room.require_batch([[token] for token in tokens], past, starts)
        self.room.require_columns(past, len(random))
        name = abi.SAMPLED if len(tokens) == 1 else abi.SAMPLED_BATCH
        if name not in self._functions or not self._queues_steps:
            return []
        upload = self._functions[name].upload_floats
        with self._together("sample", tokens, past, starts, top_k, options, random):
            numbers = upload([*chain.from_iterable(random)], len(random), len(tokens))
            more = top_k, upload(options, len(options)), numbers
            results = self._call(name, self._given(tokens), starts, 0, past, *more)
        return self._steps(results, len(tokens))

    def _has_room(self, sequences: int, columns: int) -> bool:
        """Whether the cache has room for so much, and not more than twice as much."""
        held_sequences, held = self._cache
        return held_sequences == sequences and columns <= held <= 2 * columns

    def _allocate(self, sequences: int, columns: int) -> None:
        self._cache = 0, 0
        try:
            self._functions[abi.RESET](sequences, columns)
            self._cache = sequences, columns
        except IREE_ERRORS as error:
            raise UserError(
                f"the device has no room for {sequences * columns} tokens: give a smaller "
                f"--context or --dtype: {first_line(error)}"
            ) from error

    def _prefill(self, tokens: list[int], past: int, sequence: int, start: int) -> Output:
        for at in range(0, len(tokens), PREFILL_CHUNK):
            piece = tokens[at : at + PREFILL_CHUNK]
            function = abi.DECODE if len(piece) == 1 else abi.PREFILL
            new = self._functions[function].upload(piece, 1, len(piece))
            with self._unread() if at + PREFILL_CHUNK < len(tokens) else nullcontext():
                output = self._run(function, new, [start], sequence, past + at)
        return output

    def _columns_to_join(self, prompts: list[list[int]]) -> int:
        """How many columns at the end of prompts, which are as long, are faster run together.

        Few: a whole piece of one sequence has as many rows, and reads its keys but once.
        """
        columns = {len(tokens) for tokens in prompts}
        if len(prompts) < 2 or len(columns) > 1 or abi.PREFILL_BATCH not in self._functions:
            return 0
        left = columns.pop() % PREFILL_CHUNK
        return left if left <= PREFILL_CHUNK // 2 else 0

    def _prefill_joined(self, prompts: list[list[int]], starts: list[int], past: int) -> Output:
        """All `prompts`, some columns at a time: PREFILL_CHUNK tokens in all, or one column."""
        columns, step = len(prompts[0]), max(PREFILL_CHUNK // len(prompts), 1)
        for at in range(0, columns, step):
            count = min(step, columns - at)
            function = abi.DECODE_BATCH if count == 1 else abi.PREFILL_BATCH
            tokens = [token for prompt in prompts for token in prompt[at : at + count]]
            new = self._functions[function].upload(tokens, len(prompts), count)
            output = self._run(function, new, starts, 0, past + at)
        return output

    def _run(
        self, name: str, new: rt.HalBufferView, starts: list[int], sequence: int, past: int
    ) -> Output:
        results = self._call(name, new, starts, sequence, past)
        best = results.integers(1)
        self._keep(best, results)
        find_top = partial(self._find_top, results) if abi.TOP_K in self._functions else None
        return Output(best, partial(results.read, 0, np.float32), find_top, self._together)

    def _find_top(self, results: Results, count: int) -> Top:
        logits = results.view(0)
        found = self._functions[abi.TOP_K](logits, min(count, logits.shape[1]))
        return found.integers(1), found.floats(0)

    def _steps(self, results: Results, sequences: int) -> list[list[int]]:
        """The tokens of each step that a call made."""
        found = results.integers(0)
        steps = [found[at : at + sequences] for at in range(0, len(found), sequences)]
        self._keep(steps[-1], results)
        return steps

    def _call(
        self,
        name: str,
        new: rt.HalBufferView,
        starts: list[int],
        *more: int | rt.HalBufferView,
    ) -> Results:
        function = self._functions[name]
        try:
            if starts != self._starts[0]:
                self._starts = list(starts), function.upload(starts, len(starts))
            return function(new, self._starts[1], *more)
        except IREE_ERRORS as error:
            raise UserError(f"IREE cannot run the module: {first_line(error)}") from error

    def _keep(self, chosen: list[int], results: Results) -> None:
        """Remembers the last tokens that a call chose, and where they lie on the device."""
        self._chosen = list(chosen), results.view(1)

    def _given(self, tokens: list[int]) -> rt.HalBufferView:
        """One token of each sequence as an argument."""
        chosen, view = self._chosen
        if tokens == chosen:
            return view
        return self._functions[abi.DECODE].upload(tokens, len(tokens), 1)


def _check_declaration(
    module: Path, program: rt.VmModule, vocabulary: int, integers: Integers
) -> None:
    """UserError where a step of the module takes other integers, or knows other tokens."""
    step = program.lookup_function(abi.DECODE)
    declared = _DECLARATION.search(str(step.reflection)) if step else None
    if declared and (declared["integers"], int(declared["logits"])) != (integers, vocabulary):
        raise UserError(
            f"{module.parent}: {module.name} takes {declared['integers']} and gives "
            f"{declared['logits']} logits, its manifest says {integers} and {vocabulary}: "
            "compile it again"
        )
