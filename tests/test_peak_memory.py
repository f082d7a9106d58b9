"""The peak of memory as a formula is what a run of the program needs."""

import numpy as np
import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_mlir import ir

from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.propagate_shapes import PropagateShapes
from llmc.pipelines.shapes.interface import argument_names
from llmc.pipelines.walks import find
from tests.interpreter import Values
from tests.interpreter.memory import MeteredMachine
from tests.programs.functions import Function
from tests.programs.models import Model
from tests.programs.observation import Program
from tests.programs.properties import PropertyError, bounded
from tests.programs.stages import CONTEXT, after, steps_to_iree
from tests.programs.strategies import functions, models

# Kernels are IREE's to run.
PLACES = range(1 + [step.name for step in steps_to_iree()].index("schedule-kernels"))


@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 15), (functions, 30)], ids=["models", "functions"]
)
def test_the_peak_of_a_random_program(plans, examples, request):
    @bounded(examples, request)
    @given(plans, st.sampled_from(PLACES))
    def holds(plan: Model | Function, place: int) -> None:
        program = Program.of(plan, CONTEXT)
        module = after(place, program)
        # Loops over experts are kernels, too.
        assume(not find(module.operation, "scf.forall"))
        # As the interpreter wants it, which also drops what nothing reads.
        run(("func.func(linalg-generalize-named-ops)", PropagateShapes()), module)
        machine = MeteredMachine(module, program.weights)
        sizes: dict[str, int] = {}

        def call(name: str, *arguments: np.ndarray) -> Values:
            machine.peak = machine.alive = 0
            results = machine.call(name, *arguments)
            function = machine.functions[name]
            sizes.update(_sizes(function, arguments))
            formula = sympy.sympify(ir.StringAttr(function.attributes["llmc.peak_bytes"]).value)
            if formula.subs(sizes) != machine.peak or machine.alive:
                problem = f"{name} has {machine.peak} bytes at most, the formula {formula}"
                raise PropertyError(problem, str(module), "propagate-shapes")
            return results

        list(program.runs(call, machine.functions))

    holds()


def _sizes(function: ir.Operation, arguments: tuple[np.ndarray, ...]) -> dict[str, int]:
    """What the names in formulas stand for in a call."""
    sizes = {}
    for names, argument in zip(argument_names(function.opview), arguments, strict=True):
        values = argument.shape if argument.ndim else (int(argument),)
        sizes |= dict(zip(names, values, strict=False))
    return sizes
