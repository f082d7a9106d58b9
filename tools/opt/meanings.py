"""What options of the command line mean to the driver of pipelines."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from llmc.pipelines.driver.diagnostics import DiagnosticFlags
from llmc.pipelines.driver.ir_dumps import IRDumps
from llmc.pipelines.driver.printing import PrintingFlags


def printing_flags(options: argparse.Namespace) -> PrintingFlags:
    """How IR is printed, as output and in dumps."""
    return PrintingFlags(
        generic=options.mlir_print_op_generic,
        debug_info=options.mlir_print_debuginfo,
        pretty_debug_info=options.mlir_pretty_debuginfo,
        local_scope=options.mlir_print_local_scope,
        assume_verified=options.mlir_print_assume_verified,
        skip_regions=options.mlir_print_skip_regions,
        names_from_locations=options.mlir_use_nameloc_as_prefix,
        elements_limit=options.mlir_elide_elementsattrs_if_larger,
        resource_limit=options.mlir_elide_resource_strings_if_larger,
    )


def diagnostic_flags(options: argparse.Namespace) -> DiagnosticFlags:
    """What of diagnostics is shown."""
    return DiagnosticFlags(
        notes=not options.mlir_disable_diagnostic_notes,
        operations=options.mlir_print_op_on_diagnostic,
        stack_traces=options.mlir_print_stacktrace_on_diagnostic,
        verbosity=options.mlir_diagnostic_verbosity_level,
    )


def ir_dumps(options: argparse.Namespace, flags: PrintingFlags) -> IRDumps:
    """Around which passes the IR is printed, and where."""
    only_changes = options.mlir_print_ir_after_change
    only_failures = options.mlir_print_ir_after_failure
    after = names(options.mlir_print_ir_after)
    directory = options.mlir_print_ir_tree_dir
    return IRDumps(
        flags,
        before_all=options.mlir_print_ir_before_all,
        after_all=options.mlir_print_ir_after_all
        or (not after and (only_changes or only_failures)),
        only_changes=only_changes,
        only_failures=only_failures,
        module_scope=options.mlir_print_ir_module_scope,
        before_passes=names(options.mlir_print_ir_before),
        after_passes=after,
        directory=None if directory is None else Path(directory),
    )


def names(given: Sequence[str]) -> tuple[str, ...]:
    """The passes that an option names, given once or again, each time as a list."""
    return tuple(name for one in given for name in one.split(","))
