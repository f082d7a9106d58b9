"""`partition-stages`: keeps the layers of one stage of a pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func, tensor

from llmc.dialects.index_notation import Size, size
from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import calls_of
from llmc.pipelines.rewriting.layers import keep_layers, layer_functions, trunks
from llmc.pipelines.rewriting.operations import upwards
from llmc.pipelines.several_rows import open_dims
from llmc.pipelines.sharding.annotations import STAGE, coordinates_of, grid_of
from llmc.pipelines.sharding.collectives import broadcast, receive, send

AXIS = "pp"


@dataclass(frozen=True)
class PartitionStages(Pass):
    """Keeps of every trunk what rank `rank` of the grid runs: the layers of its stage.

    A call of a layer says in `llmc.pipeline_stage` where along the grid's axis `pp` it runs. What
    follows from it runs no earlier; what follows from no layer, wherever it is needed. A value that
    a later stage needs is handed on from stage to stage (`shard.send`, `shard.recv`), and what a
    trunk returns goes from where it is made to all (`shard.broadcast`). Weights of other stages'
    layers go.
    """

    name: ClassVar[str] = "partition-stages"
    idempotent: ClassVar[bool] = False
    rank: int = 0

    def apply(self, module: ir.Module) -> None:
        """Cuts every trunk and the layers' weights. PassError where sizes or stages are unknown."""
        grid = grid_of(module)
        names = [axis.name for axis in grid.axes] if grid else []
        if grid is None or AXIS not in names:
            return
        axis = names.index(AXIS)
        stage = coordinates_of(module, grid, self.rank)[axis]
        for function in layer_functions(module):
            stages = [_stage(call, grid.axes[axis].size) for call in calls_of(module, function)]
            if stage in stages:
                keep_layers(function, [each == stage for each in stages])
        for trunk in trunks(module):
            _Cut(trunk, stage, grid.axes[axis].size, axis).apply()
        for function in layer_functions(module):
            if not calls_of(module, function):
                function.operation.erase()


def _stage(op: ir.Operation | ir.OpView, stages: int) -> int:
    attribute = op.attributes.get(STAGE)
    if not isinstance(attribute, ir.IntegerAttr) or not 0 <= attribute.value < stages:
        fail(op, f"a call of a layer must say its stage, of {stages}, in '{STAGE}'")
    return int(attribute.value)


@dataclass
class _Cut:
    """Cuts one stage out of a trunk."""

    trunk: func.FuncOp
    stage: int
    stages: int
    axis: int
    _stages: list[tuple[ir.Operation, int]] = field(default_factory=list)
    """Not a dictionary: the hash of an operation changes with its operands."""

    def apply(self) -> None:
        """Puts in what is received, sent and returned; removes what other stages run."""
        *ops, end = [op.operation for op in self.trunk.entry_block]
        for op in ops:
            found = (
                [_stage(op, self.stages)]
                if STAGE in op.attributes
                else list(self._stages_of_operands(op))
            )
            if found:
                self._stages.append((op, max(found)))
        if not self._stages:
            return
        others = [op for op, stage in self._stages if stage != self.stage]
        crossing = list(self._crossing(ops))
        first = next((op for op, stage in self._stages if stage == self.stage), end)
        for value, made, needed in crossing:
            if made < self.stage <= needed:
                with ir.InsertionPoint(first), value.owner.location:
                    known = receive(value.type, self._sizes(value), self.stage - 1, self.axis)
                self._replace(value, known)
                value = known
            if made <= self.stage < needed:
                with ir.InsertionPoint(end), end.location:
                    send(value, self.stage + 1, self.axis)
        with ir.InsertionPoint(end), end.location:
            for number, value in enumerate(end.operands):
                maker = self._stage_of(value.owner)
                if maker is not None:
                    end.operands[number] = self._returned(value, maker)
        for op in reversed(others):
            op.erase()

    def _stages_of_operands(self, op: ir.Operation) -> Iterator[int]:
        for operand in op.operands:
            stage = self._stage_of(operand.owner)
            if stage is not None:
                yield stage

    def _stage_of(self, op: ir.Operation | ir.OpView | ir.Block) -> int | None:
        """The stage that runs an operation of the trunk; None for what all of them run."""
        if isinstance(op, ir.Block):
            return None
        return next((stage for each, stage in self._stages if each == op.operation), None)

    def _crossing(self, ops: list[ir.Operation]) -> Iterator[tuple[ir.Value, int, int]]:
        """What is needed in later stages than it is made in: where it is made and last needed."""
        for op in ops:
            for result in op.results:
                users = [self._stage_of(self._in_trunk(use.owner)) for use in result.uses]
                needed = [stage for stage in users if stage is not None]
                made = self._stage_of(op)
                if made is not None and needed and max(needed) > made:
                    yield result, made, max(needed)

    def _in_trunk(self, op: ir.Operation | ir.OpView) -> ir.Operation:
        return next(each for each in upwards(op.operation) if each.block == self.trunk.entry_block)

    def _replace(self, value: ir.Value, known: ir.Value) -> None:
        for use in list(value.uses):
            if self._stage_of(self._in_trunk(use.owner)) == self.stage:
                use.owner.operands[use.operand_number] = known

    def _returned(self, value: ir.Value, made: int) -> ir.Value:
        """`value` on all ranks; the stage `made` has it."""
        if self.stage != made:
            value = tensor.empty(self._sizes(value), value.type.element_type)
        return broadcast(value, made, self.axis)

    def _sizes(self, value: ir.Value) -> list[Size]:
        """The extents of what another stage makes: where open, those of the tokens."""
        tokens = self.trunk.arguments[0]
        known, dims = value.type.has_static_shape, open_dims(tokens.type)
        if not known and len(dims) != 1:
            fail(value.owner, "cannot tell the size of what another stage computes")
        return [
            size(tokens, dims[0]) if value.type.is_dynamic_dim(dim) else extent
            for dim, extent in enumerate(value.type.shape)
        ]
