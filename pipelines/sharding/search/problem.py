"""The choices that a function leaves: how each operation may be split, and what that costs.

An operation's choice follows, by its rule, from the layouts of what it reads, as it does in
`propagate-shardings`: free are only the layouts of weights, and whether a linear layer gathers what
it reads. So a solution is a plan that the compiler follows to the letter.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import product

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ExpertLinearOp, LinearOp
from llmc.dialects.sharding_rule import ShardingRule
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.sharding.rules import Assignment, assign, is_free, rule_of
from llmc.pipelines.sharding.search.cost import Cost, CostModel, weight_bytes
from llmc.pipelines.sharding.search.options import Option, Options, WeightName, weights_of
from llmc.pipelines.sharding.split import Layout, whole, whole_of

_INPUTS = "k"


@dataclass(frozen=True)
class Choice:
    """One way to compute an operation.

    It takes values in the layouts `reads` and leaves them in those of `makes`, by their numbers;
    `weight` is the number of a weight and its option, `needs` the layout it is read in. `shared`
    is paid once by all who have the same key.
    """

    reads: tuple[tuple[int, Layout], ...]
    makes: tuple[tuple[int, Layout], ...]
    weight: tuple[int, Option] | None
    needs: Layout
    cost: Cost
    shared: tuple[tuple[Hashable, Cost], ...]


@dataclass(frozen=True)
class Node:
    """An operation; `is_last` of one that follows from a layer."""

    name: str
    choices: tuple[Choice, ...]
    is_last: bool


@dataclass(frozen=True)
class Problem:
    """The nodes of a function that a step calls `count` times, and its weights by number."""

    name: str
    count: int
    nodes: tuple[Node, ...]
    weights: tuple[WeightName, ...]


def problem_of(
    function: func.FuncOp, count: int, options: Options, model: CostModel, *, exact: bool
) -> Problem:
    """The problem of `function`, whose weights have `options`; `exact` splits no products' sum."""
    names = weights_of(function)
    builder = _Builder(model, options, {weight: n for n, weight in enumerate(names)}, exact)
    nodes = tuple(builder.nodes(function))
    return Problem(function.sym_name.value, count, nodes, tuple(names.values()))


@dataclass
class _Builder:
    model: CostModel
    options: Options
    weights: dict[ir.Value, int]
    exact: bool
    _numbers: dict[ir.Value, int] = field(default_factory=dict)
    _layouts: dict[ir.Value, list[Layout]] = field(default_factory=dict)
    _after: set[ir.Value] = field(default_factory=set)

    def nodes(self, function: func.FuncOp) -> Iterator[Node]:
        """The node of each operation that computes something, in order."""
        for view in function.entry_block:
            op = view.operation
            is_last = op.name == "func.call" or any(value in self._after for value in op.operands)
            if is_last:
                self._after.update(op.results)
            if is_free(op):
                continue
            choices = tuple(self._choices(op))
            for at, result in enumerate(op.results):
                made = [choice.makes[at][1] for choice in choices]
                self._layouts[result] = list(dict.fromkeys(made))
            yield Node(op.name, choices, is_last)

    def _choices(self, op: ir.Operation) -> Iterator[Choice]:
        rule = rule_of(op) or _unsplit(op)
        read = list(dict.fromkeys(value for value in op.operands if value in self._layouts))
        matrix = next((value for value in op.operands if value in self.options), None)
        options = self.options[matrix] if matrix is not None else [(None, False)]
        for known in product(*(self._layouts[value] for value in read)):
            has: dict[ir.Value, Layout] = dict(zip(read, known, strict=True))
            for option in options:
                if option[1] and not _can_gather(op, has) and (option[0], False) in options:
                    continue
                given = [
                    option[0] if value in self.options else self._given(value, has)
                    for value in op.operands
                ]
                if option[1]:
                    given[0] = whole(len(given[0] or ()))
                assignment = assign(rule, given)
                if self._is_allowed(op, assignment):
                    yield self._choice(op, assignment, has, matrix, option)

    def _is_allowed(self, op: ir.Operation, assignment: Assignment) -> bool:
        is_linear = isinstance(op.opview, LinearOp | ExpertLinearOp)
        return not (self.exact and is_linear and _INPUTS in assignment.splits)

    def _choice(
        self,
        op: ir.Operation,
        assignment: Assignment,
        has: dict[ir.Value, Layout],
        matrix: ir.Value | None,
        option: Option,
    ) -> Choice:
        operands, results = assignment.operands, assignment.results
        cost = self.model.compute(op, operands, results)
        for result, layout in zip(op.results, results, strict=True):
            if assignment.sum_axes:
                size = 4 * self.model.elements(result.type, layout)
                cost += self.model.sum_up(size, assignment.sum_axes)
        shared: dict[Hashable, Cost] = {}
        for at, (value, needs) in enumerate(zip(op.operands, operands, strict=True)):
            if recipe_of(value) is not None:
                storage = self.model.step.storage if value.type.rank > 1 else "f32"
                held = self.model.elements(value.type, needs) * weight_bytes(storage)
                shared["weight", self._number(value), needs] = Cost(memory=held)
                given = option[0] if value in self.options else None
            else:
                given = has.get(value)
            layout = given or whole(len(needs))
            wanted = whole(len(needs)) if option[1] and at == 0 else needs
            dims = tuple(
                dim
                for dim, (old, new) in enumerate(zip(layout, wanted, strict=True))
                if old and old != new
            )
            if dims:
                gathered = self.model.gather(value.type, layout, dims)
                shared["gather", self._number(value), layout, dims] = gathered
        needs = operands[list(op.operands).index(matrix)] if matrix is not None else ()
        return Choice(
            tuple((self._number(value), layout) for value, layout in has.items() if layout),
            tuple(
                (self._number(value), layout)
                for value, layout in zip(op.results, results, strict=True)
            ),
            (self.weights[matrix], option) if matrix is not None else None,
            needs,
            cost,
            tuple(shared.items()),
        )

    def _given(self, value: ir.Value, has: dict[ir.Value, Layout]) -> Layout | None:
        """The layout that `value` is in; None where any rank can have any part of it."""
        if value in has:
            return has[value]
        is_argument = isinstance(value.owner, ir.Block)
        return whole_of(value) if is_argument or not is_free(value.owner) else None

    def _number(self, value: ir.Value) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


def _can_gather(op: ir.Operation, has: dict[ir.Value, Layout]) -> bool:
    is_linear = isinstance(op.opview, LinearOp | ExpertLinearOp)
    return is_linear and any(has.get(op.operands[0]) or ())


def _unsplit(op: ir.Operation) -> ShardingRule:
    """The rule of an operation that every rank does in full."""
    operands, results = (
        tuple((None,) * len(whole_of(value)) for value in values)
        for values in (op.operands, op.results)
    )
    return ShardingRule(operands, results)
