"""Schedules that take operations which their verbs are not for."""

from llmc.pipelines.schedules.handles import Handle, kernels, match, operations, stage
from llmc.pipelines.schedules.instruction_verbs import (
    byte_products,
    pair_products,
    tile_products,
    unpack_words,
    use_tile_registers,
)
from llmc.pipelines.schedules.verbs import generalize, vectorize_late


def products_of_floats(payload: Handle) -> None:
    """Products of floats, which no instruction for bytes makes."""
    byte_products(operations(payload, "linalg.matmul", "mnk"), "plain", 4)


def pairs_of_floats(payload: Handle) -> None:
    """Sums of more products than two, and of floats of 32 bits."""
    generalize(payload)
    pair_products(match(payload, "mnk", reduced="k"), "vdpbf16ps")


def products_of_rows(payload: Handle) -> None:
    """The same as a generic operation, which has other loops than panels of blocks."""
    generalize(payload)
    unpack_words(match(payload, "mnk", reduced="k"), "tpbjfgi")


def tiles_of_rows(payload: Handle) -> None:
    """The same for tile registers."""
    generalize(payload)
    tile_products(match(payload, "mnk", reduced="k"))


def vectors_of_functions(payload: Handle) -> None:
    """A function, which has no loops."""
    vectorize_late(operations(payload, "func.func"))


def vectors_of_broadcasts(payload: Handle) -> None:
    """An operation that always reads the first row."""
    vectorize_late(match(payload, "mn"))


def vectors_of_sums(payload: Handle) -> None:
    """Sums that are whole."""
    generalize(payload)
    vectorize_late(match(payload, "mnk", reduced="k"))


def registers_of_functions(payload: Handle) -> None:
    """A function instead of its grid."""
    use_tile_registers(operations(payload, "func.func"))


def registers_of_sums(payload: Handle) -> None:
    """What is in no grid yet."""
    use_tile_registers(operations(payload, "linalg.matmul", "mnk"))


def other_instruction(payload: Handle) -> None:
    """A name that is misspelled."""
    byte_products(_dots(payload), "vpdpbus", 16)


def no_lanes(payload: Handle) -> None:
    """Vectors of nothing."""
    byte_products(_dots(payload), "plain", 0)


def _dots(payload: Handle) -> Handle:
    return stage(kernels(payload, "quantized_matvec"), "dots0", "tpbjgi")
