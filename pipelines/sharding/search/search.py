"""Searches grids and splits for the plan with the shortest step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ExpertLinearOp
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.sharding.plan import Plan
from llmc.pipelines.sharding.search.activations import activation_bytes
from llmc.pipelines.sharding.search.constraints import Constraints
from llmc.pipelines.sharding.search.cost import Cost, CostModel, Step
from llmc.pipelines.sharding.search.device import Device
from llmc.pipelines.sharding.search.options import Options, options_of, usual_options
from llmc.pipelines.sharding.search.patterns import Written, written
from llmc.pipelines.sharding.search.problem import Problem, problem_of
from llmc.pipelines.sharding.search.solver import Solution, Stages, solve, solve_within
from llmc.pipelines.sharding.search.spans import Layers
from llmc.pipelines.sharding.search.stages import cut_layers
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

AXES = ("pp", "dp", "ep", "tp")
"""From far to near: the ranks along the last one are neighbours."""
_NEAR = ("ep", "tp")


@dataclass(frozen=True)
class Found:
    """A plan and what a step costs; for each stage the bytes that a rank holds and sends.

    The `activations` are part of what it holds; the rest is weights and a full KV cache.
    """

    plan: Plan
    cost: Cost
    memory: tuple[float, ...]
    activations: int
    moved: tuple[int, ...]
    weights: tuple[Written, ...]


@dataclass(frozen=True)
class Misfit:
    """A grid whose devices lack so many bytes each."""

    grid: Grid
    missing: float


def grid_of_sizes(**sizes: int) -> Grid:
    """The grid of axes of these sizes in the order of AXES, without those of one rank."""
    axes = [Axis(name, sizes[name]) for name in AXES if sizes.get(name, 1) > 1]
    return Grid(tuple(axes or [Axis("tp", 1)]))


def _size(grid: Grid, name: str) -> int:
    return next((axis.size for axis in grid.axes if axis.name == name), 1)


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


@dataclass
class Search:
    """Finds plans for a step of `module`, as it is before `annotate-shardings`.

    `exact` splits no sum of products. A plan that is `given` is kept to.
    """

    module: ir.Module
    device: Device
    step: Step
    exact: bool = False
    constraints: Constraints = field(default_factory=Constraints)
    given: Plan | None = None
    _solved: dict[tuple[CostModel, bool, bool], tuple[list[Problem], Solution]] = field(
        default_factory=dict
    )
    _activations: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {function.sym_name.value: function for function in functions(self.module)}
        self._trunk = named[self.step.function]
        calls = [op for op in self._trunk.entry_block if isinstance(op, func.CallOp)]
        names = list(dict.fromkeys(call.callee.value for call in calls))
        self._kinds = [named[name] for name in names]
        self._layers = [names.index(call.callee.value) for call in calls]
        self._hidden = calls[0].results[0].type

    def grids(self, ranks: int) -> Iterator[Grid]:
        """The grids of so many ranks, with no more stages than layers, and ranks than experts."""
        for pp, ep, tp in product(_divisors(ranks), repeat=3):
            dp, left = divmod(ranks, pp * ep * tp)
            if not left and pp <= len(self._layers) and ep <= max(self._experts(), 1):
                yield grid_of_sizes(pp=pp, dp=dp, ep=ep, tp=tp)

    def best(self, grids: Sequence[Grid]) -> Found:
        """The plan with the shortest step, and of those with the least memory.

        UserError where a grid has more stages than the model layers, or no grid's devices hold it.
        """
        for grid in grids:
            if (stages := _size(grid, "pp")) > len(self._layers):
                raise UserError(
                    f"{len(self._layers)} layers cannot be split among {stages} stages: give fewer "
                    "in pp"
                )
        solved = [self.solve(each) for each in grids]
        found = [each for each in solved if isinstance(each, Found)]
        if found:
            return min(found, key=lambda each: (each.cost.seconds, max(each.memory)))
        least = min((each for each in solved if isinstance(each, Misfit)), key=lambda m: m.missing)
        raise UserError(
            f"the model does not fit: with {least.grid} each device lacks "
            f"{least.missing / 1e6:,.1f} MB of memory: use more ranks, or --dtype"
        )

    def solve(self, grid: Grid, *, usual: bool = False) -> Found | Misfit:
        """The best plan for `grid`; `usual` is the one that a compilation without a plan follows.

        ValueError where there are too many ranks for that.
        """
        model, stages = self._model(grid), _size(grid, "pp")
        problems, solution = self._freely(model, stages > 1, usual)
        places = self._places(solution, stages)
        shares = self._shares(places, stages)
        limit = float(model.device.memory_bytes - self._activations_of(model.step))
        if max(solution.memory(shares)) > limit:
            given = tuple(places) if self.given and self.given.stages else ()
            layers = Layers(tuple(self._layers), stages, given)
            same = [] if usual else self.constraints.groups(problems)
            bounded = solve_within(problems, layers, limit, same)
            if isinstance(bounded, float):
                return Misfit(grid, bounded)
            solution, places = bounded, self._places(bounded, stages)
        return self._found(grid, model, problems, solution, places)

    def _model(self, grid: Grid) -> CostModel:
        """The costs of a stage of the first replica of `grid`: no other has more to do."""
        near = grid_of_sizes(**{name: _size(grid, name) for name in _NEAR})
        replicas = _size(grid, "dp")
        working = near.size * min(replicas, self.step.sequences)
        device = self.device.share(grid.size, working)
        return CostModel(device, near, self.step.of_replica(replicas))

    def _activations_of(self, step: Step) -> int:
        """The bytes of a replica's activations."""
        if step.sequences not in self._activations:
            found = activation_bytes(self.module, step.sequences, step.context)
            self._activations[step.sequences] = found
        return self._activations[step.sequences]

    def _freely(
        self, model: CostModel, pipelined: bool, usual: bool
    ) -> tuple[list[Problem], Solution]:
        """The problems and their best solution, whatever memory it takes."""
        key = model, pipelined, usual
        if key not in self._solved:
            problems = list(self._problems(model, usual))
            if not usual:
                self.constraints.check(problems)
                problems = [self.constraints.kept(problem) for problem in problems]
            same = [] if usual else self.constraints.groups(problems)
            solution = solve(problems, same, pipelined=pipelined)
            if solution is None and usual:
                raise ValueError("it splits sums, which weights in blocks do not allow")
            if solution is None:
                raise UserError("no plan is what --plan, --pin and --same want together")
            self._solved[key] = problems, solution
        return self._solved[key]

    def _problems(self, model: CostModel, usual: bool) -> Iterator[Problem]:
        """One for each kind of layer, and at last the trunk's."""
        for number, function in enumerate((*self._kinds, self._trunk)):
            is_trunk = function == self._trunk
            count = 1 if is_trunk else self._layers.count(number)
            options = self._options(function, model.grid, is_trunk, usual)
            yield problem_of(function, count, options, model, exact=self.exact)

    def _options(self, function: func.FuncOp, near: Grid, is_trunk: bool, usual: bool) -> Options:
        if usual:
            return usual_options(function, near, is_trunk=is_trunk, exact=self.exact)
        plan = replace(self.given or Plan(near), grid=near)
        return options_of(function, near, plan, is_trunk=is_trunk)

    def _places(self, solution: Solution, stages: int) -> list[int]:
        """The stage of each layer: such that the fullest has as little as can be."""
        if self.given and self.given.stages:
            return self.given.stages_of(len(self._layers), stages)
        held = [solution.costs[kind].memory for kind in self._layers]
        return cut_layers(held, stages, solution.first.memory, solution.last.memory)

    def _shares(self, places: Sequence[int], stages: int) -> Stages:
        counts = [[0] * len(self._kinds) for _ in range(stages)]
        for place, kind in zip(places, self._layers, strict=True):
            counts[place][kind] += 1
        return Stages(tuple(tuple(each) for each in counts))

    def _found(
        self,
        grid: Grid,
        model: CostModel,
        problems: Sequence[Problem],
        solution: Solution,
        places: list[int],
    ) -> Found:
        weights = tuple(written(problems, solution, model.grid))
        pins = tuple(pin for each in weights for pin in each.pins)
        inputs = tuple(name for each in weights for name in each.inputs)
        stages = _size(grid, "pp")
        plan = Plan(grid, pins, inputs, tuple(places) if stages > 1 else (), complete=True)
        shares = self._shares(places, stages)
        cost, moved = solution.total(problems), list(solution.moved(shares))
        if stages > 1:
            sent, told = self._between_stages(replace(model, grid=grid))
            cost = cost + sent.times(stages - 1) + told
            moved = [
                each + told.moved + (sent.moved if stage < stages - 1 else 0)
                for stage, each in enumerate(moved)
            ]
        activations = self._activations_of(model.step)
        memory = tuple(held + activations for held in solution.memory(shares))
        return Found(plan, cost, memory, activations, tuple(moved), weights)

    def _between_stages(self, model: CostModel) -> tuple[Cost, Cost]:
        """What it costs to hand on the activations, and to tell all the result."""
        axis = [[axis.name for axis in model.grid.axes].index("pp")]
        result = self._trunk.type.results[0]
        return (
            model.hand_over("send", self._hidden, axis),
            model.hand_over("broadcast", result, axis),
        )

    def _experts(self) -> int:
        """How many experts a layer has, at most."""
        return max(
            (
                op.opview.weight.type.shape[0]
                for kind in self._kinds
                for op in kind.entry_block
                if isinstance(op.opview, ExpertLinearOp)
            ),
            default=0,
        )
