"""Solves the problems of all functions at once, exactly: an integer program for HiGHS.

A variable of 0 or 1 says whether a choice is made, one each layout of a value whether it has that.
One choice is made for each node, those that read and make a value agree in its layout, and what
choices share is paid if any of them is made. Where memory is bounded the layers are cut into stages
at once: the spans that are stages follow one another, and each holds what its layers do.
Zheng et al., "Alpa", 2022, section 4.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

from llmc.pipelines.sharding.search.cost import Cost
from llmc.pipelines.sharding.search.options import Option
from llmc.pipelines.sharding.search.problem import Choice, Problem
from llmc.pipelines.sharding.search.spans import Content, Layers
from llmc.pipelines.sharding.split import Layout

_UNIT = 1e6  # of bytes, so that numbers are of a size that a solver likes
# The bit of a presolve rule after which HiGHS can lose a row that says that one choice is made.
_ENUMERATION = 1 << 16  # https://github.com/ERGO-Code/HiGHS/issues/3216


_Splits = Mapping[tuple[bool, ...], Sequence[int]]
"""The variables of a node's choices, by the dimensions in which they split the weight it reads."""


@dataclass(frozen=True)
class Stages:
    """How many layers of each problem a stage has: `counts[s][p]`.

    The last problem is the trunk's. What it computes before the layers is in the first stage, and
    what after them in the last.
    """

    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Solution:
    """What was chosen: an option and the layout read for each weight of each problem.

    `costs[p]` is that of one call of layer p, `first` and `last` are those of the trunk before and
    after the layers.
    """

    options: tuple[Mapping[int, tuple[Option, Layout]], ...]
    costs: tuple[Cost, ...]
    first: Cost
    last: Cost

    def total(self, problems: Sequence[Problem]) -> Cost:
        """That of a step."""
        cost = self.first + self.last
        for problem, each in zip(problems, self.costs, strict=False):
            cost += each.times(problem.count)
        return cost

    def memory(self, stages: Stages) -> tuple[float, ...]:
        """The bytes that a rank of each stage holds."""
        return tuple(cost.memory for cost in self._of_stages(stages))

    def moved(self, stages: Stages) -> tuple[int, ...]:
        """The bytes that a rank of each stage sends within its stage."""
        return tuple(cost.moved for cost in self._of_stages(stages))

    def _of_stages(self, stages: Stages) -> list[Cost]:
        found = []
        for counts in stages.counts:
            cost = Cost()
            for count, each in zip(counts, self.costs, strict=True):
                cost += each.times(count)
            found.append(cost)
        found[0] += self.first
        found[-1] += self.last
        return found


def solve(
    problems: Sequence[Problem],
    same: Sequence[Sequence[tuple[int, int]]] = (),
    *,
    pipelined: bool = False,
) -> Solution | None:
    """The cheapest choices, whatever memory they take; None where none agree.

    The weights of each group in `same`, by problem and number, are split in the same dimensions.
    With `pipelined`, what comes before the layers is on other ranks than what comes after them.
    """
    program = _Program(problems, pipelined)
    program.build(same)
    values = program.minimum()
    return None if values is None else program.solution(values)


def solve_within(
    problems: Sequence[Problem],
    layers: Layers,
    limit: float,
    same: Sequence[Sequence[tuple[int, int]]] = (),
) -> Solution | float:
    """The cheapest choices with which `layers` can be cut so that no stage holds more than `limit`.

    `same` is as in `solve`. Where nothing fits it is how many bytes the fullest stage lacks at
    least.
    """
    program = _Program(problems, pipelined=layers.stages > 1)
    program.build(same)
    program.bound(layers, limit)
    values = program.minimum()
    if values is not None:
        return program.solution(values)
    values = program.minimum(slack=True)
    return float(values[program.slack]) if values is not None else float("inf")


@dataclass
class _Program:
    problems: Sequence[Problem]
    pipelined: bool
    slack: int = 0
    _costs: list[float] = field(default_factory=lambda: [0.0])
    _rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)
    _named: dict[Hashable, int] = field(default_factory=dict)
    _options: dict[tuple, list[int]] = field(default_factory=dict)
    _choices: list[tuple[int, Choice, int]] = field(default_factory=list)
    _payers: dict[int, set[int]] = field(default_factory=dict)
    _costed: list[tuple[int, bool, Cost, int]] = field(default_factory=list)

    def build(self, same: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Adds variables and constraints."""
        splits: dict[tuple[int, int], _Splits] = {}
        for number, problem in enumerate(self.problems):
            for node in problem.nodes:
                made = {self._variable(problem, choice.cost): choice for choice in node.choices}
                self._row(dict.fromkeys(made, 1.0), 1, 1)
                for variable, choice in made.items():
                    self._choices.append((number, choice, variable))
                    self._costed.append((number, node.is_last, choice.cost, variable))
                # Of a weight that is read twice, as a tied embedding is, the first stands for all.
                for weight in {choice.weight[0] for choice in node.choices if choice.weight}:
                    splits.setdefault((number, weight), _splits(made))
                self._agree(number, made)
                self._share(number, node.is_last, made)
        for options in self._options.values():
            self._row(dict.fromkeys(options, 1.0), 1, 1)
        for group in same:
            self._alike([splits[each] for each in group])

    def _alike(self, weights: Sequence[_Splits]) -> None:
        """The choices of `weights` split them in the same dimensions."""
        first, *others = weights
        for other in others:
            for split in dict.fromkeys((*first, *other)):
                terms = dict.fromkeys(first.get(split, ()), 1.0)
                terms.update(dict.fromkeys(other.get(split, ()), -1.0))
                self._row(terms, 0, 0)

    def _variable(self, problem: Problem, cost: Cost) -> int:
        self._costs.append(problem.count * cost.seconds)
        return len(self._costs) - 1

    def _row(self, terms: dict[int, float], least: float, most: float) -> None:
        self._rows.append((terms, least, most))

    def _agree(self, number: int, made: Mapping[int, Choice]) -> None:
        """The choices of a node have its values in the layouts that these are in."""
        by_layout: dict[tuple, dict[int, float]] = {}
        for variable, choice in made.items():
            for value, layout in dict.fromkeys((*choice.reads, *choice.makes)):
                by_layout.setdefault((number, value, layout), {})[variable] = 1.0
            if choice.weight:
                weight, (layout_, _) = choice.weight
                by_layout.setdefault((number, "weight", weight, layout_), {})[variable] = 1.0
        for name, terms in by_layout.items():
            if name not in self._named:
                self._costs.append(0.0)
                self._named[name] = len(self._costs) - 1
                if "weight" in name:
                    self._options.setdefault(name[:3], []).append(self._named[name])
            self._row({**terms, self._named[name]: -1.0}, 0, 0)

    def _share(self, number: int, is_last: bool, made: Mapping[int, Choice]) -> None:
        """What is shared is paid if a choice that needs it is made."""
        payers: dict[Hashable, dict[int, float]] = {}
        costs: dict[Hashable, Cost] = {}
        place = is_last and self.pipelined
        for variable, choice in made.items():
            for key, cost in choice.shared:
                payers.setdefault((number, place, key), {})[variable] = 1.0
                costs[number, place, key] = cost
        for name, terms in payers.items():
            if name not in self._named:
                variable = self._variable(self.problems[number], costs[name])
                self._named[name] = variable
                self._costed.append((number, is_last, costs[name], variable))
            self._payers.setdefault(self._named[name], set()).update(terms)
            self._row({**terms, self._named[name]: -1.0}, -np.inf, 0)

    def bound(self, layers: Layers, limit: float) -> None:
        """Cuts `layers` into spans, the stages, none of which holds more than `limit`."""
        stages = {span: self._flag() for span in layers.spans()}
        self._row(dict.fromkeys(stages.values(), 1.0), layers.stages, layers.stages)
        last = len(layers.kinds)
        for at in range(last + 1):
            begin = {flag: 1.0 for span, flag in stages.items() if span[0] == at}
            end = {flag: -1.0 for span, flag in stages.items() if span[1] == at}
            net = float(at == 0) - (at == last)
            self._row({**begin, **end}, net, net)
        alike: dict[Content, list[int]] = {}
        for span, flag in stages.items():
            alike.setdefault(layers.content(*span), []).append(flag)
        for content, flags in alike.items():
            self._hold(content, flags, limit)

    def _hold(self, content: Content, flags: Sequence[int], limit: float) -> None:
        """Bounds what a stage of this `content` holds, where one of `flags` says that it exists."""
        most = sum(
            content.times(number, is_last=node.is_last) * max(map(_held, node.choices))
            for number, problem in enumerate(self.problems)
            for node in problem.nodes
        )
        if most <= limit:
            return
        is_there = self._flag()
        for flag in flags:
            self._row({flag: 1.0, is_there: -1.0}, -np.inf, 0)
        terms = {self.slack: -1.0, is_there: (most - limit) / _UNIT}
        for number, is_last, cost, variable in self._costed:
            if held := content.times(number, is_last=is_last) * cost.memory:
                terms[variable] = held / _UNIT
        self._row(terms, -np.inf, most / _UNIT)

    def _flag(self) -> int:
        self._costs.append(0.0)
        return len(self._costs) - 1

    def minimum(self, *, slack: bool = False) -> np.ndarray | None:
        """The variables of the cheapest choices, or with `slack` of those that lack least memory.

        None where there are none.
        """
        most = max(max(self._costs), 1e-12)
        costs = np.array(self._costs) / most
        if slack:
            costs = np.zeros(len(costs))
            costs[self.slack] = 1.0
        upper = np.ones(len(costs))
        upper[self.slack] = np.inf if slack else 0.0
        values = _minimise(costs, upper, self._rows)
        if values is not None:
            values[self.slack] *= _UNIT
        return values

    def solution(self, values: np.ndarray) -> Solution:
        """What the variables say."""
        for variable, payers in self._payers.items():
            # The solver is free to pay for what nobody needs where that costs nothing.
            values[variable] = max(values[payer] for payer in payers)
        options: list[dict[int, tuple[Option, Layout]]] = [{} for _ in self.problems]
        for number, choice, variable in self._choices:
            if choice.weight and values[variable] > 0.5:
                options[number][choice.weight[0]] = (choice.weight[1], choice.needs)
        *layers, trunk = range(len(self.problems))
        costs = tuple(self._cost(values, number, (False, True)) for number in layers)
        first, last = (self._cost(values, trunk, (place,)) for place in (False, True))
        return Solution(tuple(options), costs, first, last)

    def _cost(self, values: np.ndarray, problem: int, places: Sequence[bool]) -> Cost:
        found = Cost()
        for number, is_last, cost, variable in self._costed:
            if number == problem and is_last in places and values[variable] > 0.5:
                found += cost
        return found


def _splits(made: Mapping[int, Choice]) -> _Splits:
    found: dict[tuple[bool, ...], list[int]] = {}
    for variable, choice in made.items():
        split = tuple(each is not None for each in choice.needs)
        found.setdefault(split, []).append(variable)
    return found


def _held(choice: Choice) -> float:
    """The bytes that a rank holds for `choice`."""
    return choice.cost.memory + sum(cost.memory for _, cost in choice.shared)


def _minimise(
    costs: np.ndarray, upper: np.ndarray, rows: Sequence[tuple[dict[int, float], float, float]]
) -> np.ndarray | None:
    """The whole numbers from 0 to `upper` of least cost whose sums are in the rows' bounds.

    None where there are none; RuntimeError where HiGHS cannot tell.
    """
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), len(rows)
    lp.col_cost_ = costs
    lp.col_lower_, lp.col_upper_ = np.zeros(len(costs)), upper
    lp.row_lower_ = np.array([least for _, least, _ in rows])
    lp.row_upper_ = np.array([most for _, _, most in rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for terms, _, _ in rows)])
    lp.a_matrix_.index_ = np.array([at for terms, _, _ in rows for at in terms])
    lp.a_matrix_.value_ = np.array([each for terms, _, _ in rows for each in terms.values()])
    whole = highspy.HighsVarType.kInteger
    lp.integrality_ = [highspy.HighsVarType.kContinuous, *[whole] * (len(costs) - 1)]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("presolve_rule_off", _ENUMERATION)
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        return np.array(solver.getSolution().col_value)
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    raise RuntimeError(f"HiGHS {solver.version()} says {solver.modelStatusToString(status)!r}")
