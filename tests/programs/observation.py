"""What a program computes, seen from outside: the same numbers before and after any pass."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch_mlir import ir

from llmc.runtime import abi
from tests.interpreter import Machine, Values
from tests.programs.functions import NAME, Function, build_function
from tests.programs.models import Model, build_model
from tests.programs.scope import Weights

EXACT = 1e-5
"""The interpreter computes in float64. What it compares differs by constants, and weights that the
archive would store, rounded to float32."""

_TOKENS = 4

Call = Callable[..., Values]
"""Calls a function of a module by name."""

Run = tuple[str, np.ndarray, np.ndarray]
"""What was run, what it gave, and what it should give."""


@dataclass(frozen=True)
class Program:
    """A program as IR, and what it must compute."""

    plan: Model | Function
    module: ir.Module
    weights: Weights

    @classmethod
    def of(cls, plan: Model | Function, context: ir.Context) -> "Program":
        """Builds `plan`."""
        build = build_model if isinstance(plan, Model) else build_function
        return cls(plan, *build(plan, context))

    def rounded(self, most: float, seed: int) -> "Program":
        """This program with each weight changed at random, by the share `most` of it at most."""
        rng = np.random.default_rng(seed)
        weights = {
            name: value * (1 + rng.uniform(-most, most, value.shape))
            if np.issubdtype(value.dtype, np.floating)
            else value
            for name, value in self.weights.items()
        }
        return replace(self, weights=weights)

    def differences(
        self, module: ir.Module, tolerance: float = EXACT, earlier: ir.Module | None = None
    ) -> list[str]:
        """How `module`, this program after some passes, differs from it in what it computes.

        `tolerance` bounds the norm of a difference, relative to that of what is expected: of what
        `earlier` runs too, what that gives.
        """
        given = {what: actual for what, actual, _ in self._runs_of(earlier)} if earlier else {}
        runs = (
            (what, actual, given.get(what, planned))
            for what, actual, planned in self._runs_of(module)
        )
        return [
            f"{what} gives {actual.tolist()}, not {expected.tolist()}"
            for what, actual, expected in runs
            if not close(actual, expected, tolerance)
        ]

    def _runs_of(self, module: ir.Module) -> Iterator[Run]:
        machine = Machine(module, self.weights)
        return self.runs(machine.call, machine.functions)

    def runs(self, call: Call, functions: Container[str]) -> Iterator[Run]:
        """Runs a form of the program, which has `functions`, through `call`.

        With `reset` among them, attention remembers.
        """
        if isinstance(self.plan, Function):
            return self._run_function(call)
        variants = self.plan.variants
        if abi.RESET not in functions:
            return _run_without_state(call, variants, self._tokens, self._logits)
        if abi.PREFILL_BATCH in functions:
            variants = (*variants, abi.PREFILL_BATCH)
        return _run_with_state(call, variants, self._tokens, self._logits)

    def _run_function(self, call: Call) -> Iterator[Run]:
        for number, pair in enumerate(zip(call(NAME, self._x), self._y, strict=True)):
            yield f"result {number} of {NAME}", *pair

    @cached_property
    def _x(self) -> np.ndarray:
        shape = self.plan.batch, self.plan.tokens, self.plan.width
        return np.random.default_rng(0).uniform(-1, 1, shape)

    @cached_property
    def _y(self) -> Values:
        return Machine(self.module, self.weights).call(NAME, self._x)

    @cached_property
    def _tokens(self) -> np.ndarray:
        """Two sequences `[2, tokens]`."""
        return np.random.default_rng(0).integers(self.plan.vocabulary, size=(2, _TOKENS))

    @cached_property
    def _logits(self) -> np.ndarray:
        """`[2, tokens + 1, vocabulary]`: after so many tokens of a sequence, without state."""
        whole, _ = build_model(replace(self.plan, variants=(abi.PREFILL,)), self.module.context)
        machine = Machine(whole, self.weights)
        logits = np.full((2, _TOKENS + 1, self.plan.vocabulary), np.nan)
        for number, tokens in enumerate(self._tokens):
            for count in range(1, _TOKENS + 1):
                out, *_ = machine.call(abi.PREFILL, tokens[None, :count], np.arange(count)[None])
                logits[number, count] = out[0]
        return logits


def _run_without_state(
    call: Call, variants: tuple[str, ...], tokens: np.ndarray, logits: np.ndarray
) -> Iterator[Run]:
    if abi.PREFILL in variants:
        out, *_ = call(abi.PREFILL, tokens[:1, :3], np.arange(3)[None])
        yield "prefill of 3 tokens", out, logits[:1, 3]
    if abi.DECODE in variants:
        out, *_ = call(abi.DECODE, tokens[:1, :1], np.zeros((1, 1), np.int64))
        yield "decode of the first token", out, logits[:1, 1]
    if abi.DECODE_BATCH in variants:
        out, *_ = call(abi.DECODE_BATCH, tokens[:, :1], np.zeros((2, 1), np.int64))
        yield "decode_batch of first tokens", out, logits[:, 1]


def _run_with_state(
    call: Call, variants: tuple[str, ...], tokens: np.ndarray, logits: np.ndarray
) -> Iterator[Run]:
    """The second sequence begins a column later."""
    call(abi.RESET, np.int64(2), np.int64(_TOKENS + 1))
    start = np.array([0, 1])
    late = np.concatenate([tokens[1:, :1], tokens[1:]], axis=1)
    if abi.PREFILL in variants:
        for sequence, columns, count in [(0, tokens[:1], 2), (1, late, 3)]:
            out, *_ = call(
                abi.PREFILL, columns[:, :count], start[[sequence]], np.int64(sequence), np.int64(0)
            )
            yield f"prefill of sequence {sequence}", out, logits[[sequence], 2]
        out, *_ = call(abi.PREFILL, tokens[:1, 2:4], start[:1], np.int64(0), np.int64(2))
        yield "prefill of 2 tokens more", out, logits[:1, 4]
    if abi.PREFILL_BATCH in variants:
        for past, columns in [(0, slice(0, 2)), (2, slice(2, 4))]:
            both = np.stack([tokens[0, columns], late[0, columns]])
            out, *_ = call(abi.PREFILL_BATCH, both, start, np.int64(0), np.int64(past))
            expected = np.stack([logits[0, past + 2], logits[1, past + 1]])
            yield f"prefill of both from column {past} on", out, expected
    if abi.DECODE in variants:
        for past in range(3):
            out, *_ = call(
                abi.DECODE, tokens[:1, past : past + 1], start[:1], np.int64(0), np.int64(past)
            )
            yield f"decode in column {past}", out, logits[:1, past + 1]
    if abi.DECODE_BATCH in variants:
        for past in range(3):
            column = np.array([[tokens[0, past]], [late[0, past]]])
            out, *_ = call(abi.DECODE_BATCH, column, start, np.int64(0), np.int64(past))
            yield f"decode_batch in column {past}", out[:1], logits[:1, past + 1]
            if past:
                yield f"decode_batch in column {past}", out[1:], logits[1:, past]


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float, reach: float = 0.0) -> bool:
    """Whether the norm of the difference is within `tolerance`, relative to that of `expected`.

    Beyond `reach`, where the difference may have that norm anyway.
    """
    if actual.shape != expected.shape:
        return False
    scale = max(1.0, float(np.linalg.norm(expected)))
    return bool(np.linalg.norm(actual - expected) <= reach + tolerance * scale)
