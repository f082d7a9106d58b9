"""A schedule that fails, for ../reproducer.mlir, which knows the lines."""

from llmc.pipelines.schedules.handles import Handle


def schedule(payload: Handle) -> None:
    """Fails."""
    raise KeyError("a key")
