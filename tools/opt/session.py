"""What `llmc-opt` does once its command line is read."""

import argparse
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver import execution
from llmc.pipelines.driver.diagnostics import Source
from llmc.pipelines.driver.expected_diagnostics import ExpectedDiagnostics
from llmc.pipelines.driver.printing import IRPrinter, PrintingFlags
from llmc.pipelines.driver.reproducer import Reproducer, stored_pipeline
from llmc.pipelines.driver.timing import Timing
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.base import PassError
from llmc.pipelines.pipeline import Step
from llmc.pipelines.registry import (
    MODULE,
    ParsedPipeline,
    dialect_names,
    list_passes,
    list_pipelines,
    list_schedules,
    parse_pass,
    parse_pipeline,
)
from llmc.runtime.errors import UserError
from llmc.tools.opt.source_files import SEPARATOR, Part, read_parts
from llmc.tools.opt.unmatched_schedules import UnmatchedSchedules


def run(options: argparse.Namespace) -> int:
    """Does what `options` say; 0, or 1 where a part of the file failed. Raises UserError."""
    listing = _listing(options)
    if listing:
        print("\n".join(listing))
        return 0
    return _Session(options).run()


def _listing(options: argparse.Namespace) -> list[str]:
    if options.list_passes:
        return list_passes()
    if options.list_pipelines:
        return list_pipelines()
    if options.list_schedules:
        return list_schedules()
    if options.show_dialects:
        return [f"Available Dialects: {','.join(dialect_names(_context()))}"]
    return []


def _context() -> ir.Context:
    context = ir.Context()
    context.emit_error_diagnostics = True
    dialects.load(context)
    return context


class _Session:
    """One run of the command: the parts of one file through one pipeline, in one context."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.timing = Timing()
        self.flags = PrintingFlags(
            generic=options.mlir_print_op_generic,
            debug_info=options.mlir_print_debuginfo,
            pretty_debug_info=options.mlir_pretty_debuginfo,
            local_scope=options.mlir_print_local_scope,
            elements_limit=options.mlir_elide_elementsattrs_if_larger,
            resource_limit=options.mlir_elide_resource_strings_if_larger,
        )
        self.reproducer = None
        if options.reproducer is not None:
            self.reproducer = Reproducer(Path(options.reproducer), options.verify_each)
        self.context = _context()
        self.show = Source(options.file, "").show
        self.told = False
        self.context.attach_diagnostic_handler(self._tell)
        if options.mlir_disable_threading or options.mlir_print_ir_module_scope:
            self.context.enable_multithreading(False)

    def _tell(self, diagnostic: ir.Diagnostic) -> bool:
        self.told = True
        return self.show(diagnostic)

    def run(self) -> int:
        """Writes each part as the pipeline leaves it."""
        options = self.options
        if options.dump_schedule:
            return self._dump_schedules()
        parts = read_parts(options.file, split=options.split_input_file)
        pipeline = self._pipeline(parts)
        if options.dump_pass_pipeline:
            print(self._described(pipeline), file=sys.stderr)
        # To standard output at once, to a file if all went well.
        sink = sys.stdout.buffer if options.output == "-" else BytesIO()
        failed = False
        for number, part in enumerate(parts):
            if number:
                sink.write(f"{SEPARATOR}\n".encode())
                sink.flush()
            failed |= not self._run_part(part, pipeline, sink)
            sink.flush()
        if isinstance(sink, BytesIO) and not failed:
            _write_file(options.output, sink)
        if options.mlir_timing:
            print(self.timing.table(), file=sys.stderr)
        return int(failed)

    def _dump_schedules(self) -> int:
        """Prints the transform scripts of the schedules that are given."""
        steps = [step for given in self.options.steps for step in self._steps(*given)]
        loaded = [step.loaded for step in steps if isinstance(step, ApplySchedule)]
        schedules = [schedule for schedule in loaded if schedule is not None]
        if not schedules:
            raise UserError("--dump-schedule needs --schedule or --schedule-file")
        with self.context, ir.Location.unknown():
            try:
                for schedule in schedules:
                    print(self.flags.text(schedule.script().operation))
            except ir.MLIRError:  # of which a diagnostic told
                return 1
        return 0

    def _pipeline(self, parts: Sequence[Part]) -> ParsedPipeline:
        options = self.options
        if options.run_reproducer:
            return parse_pipeline(stored_pipeline(parts[0].source.text, options.file), self.context)
        if options.pass_pipeline is not None:
            passes = [text for kind, text in options.steps if kind == "pass"]
            if passes:
                raise UserError(f"give --pass-pipeline or passes such as --{passes[0]}, not both")
            pipeline = parse_pipeline(options.pass_pipeline, self.context)
            schedules = [step for given in options.steps for step in self._steps(*given)]
            return ParsedPipeline(pipeline.anchor, (*pipeline.steps, *schedules))
        steps = [step for kind, text in options.steps for step in self._steps(kind, text)]
        return ParsedPipeline(MODULE, tuple(steps))

    def _steps(self, kind: str, text: str) -> tuple[Step, ...]:
        """What one pass or schedule of the command line means."""
        if kind == "schedule":
            return (ApplySchedule(schedule=text),)
        if kind == "schedule-file":
            return (ApplySchedule(file=text),)
        return parse_pass(text, self.context)

    def _described(self, pipeline: ParsedPipeline) -> str:
        with self.context:
            passes = list(execution.single_passes(pipeline.steps, pipeline.anchor))
        lines = ",\n".join(f"  {single.below_root}" for single in passes)
        return f"Pass Manager with {len(passes)} passes:\n{pipeline.anchor}(\n{lines}\n)"

    def _run_part(self, part: Part, pipeline: ParsedPipeline, sink: BinaryIO) -> bool:
        """Whether all went well with `part`, or as its comments expect."""
        if not self.options.verify_diagnostics:
            self.show = part.source.show
            return self._transform(part, pipeline, sink)
        expected = ExpectedDiagnostics(part.source)
        self.show = expected.check
        self._transform(part, pipeline, sink)
        report = expected.report()
        if report:
            print("\n".join(report), file=sys.stderr)
        return not report

    def _transform(self, part: Part, pipeline: ParsedPipeline, sink: BinaryIO) -> bool:
        """Whether `part` could be parsed and transformed; if so it is in `sink` now."""
        options, self.told = self.options, False
        self.context.allow_unregistered_dialects = options.allow_unregistered_dialect
        try:
            with self.timing.part("Parser"):
                root = part.parse(self.context, implicit_module=not options.no_implicit_module)
            execution.run(
                pipeline.steps,
                root,
                anchor=pipeline.anchor,
                observers=self._observers(),
                verify_each=options.verify_each,
            )
        except (ir.MLIRError, PassError) as error:
            if not self.told:
                raise UserError(_without_reason(part, error)) from error
            if self.reproducer is not None and self.reproducer.written:
                path = self.reproducer.path
                print(f"note: to see it again: llmc-opt {path} --run-reproducer", file=sys.stderr)
            return False
        with self.timing.part("Output"):
            if options.emit_bytecode:
                root.operation.write_bytecode(sink)
            else:
                sink.write(f"{self.flags.text(root.operation)}\n".encode())
        return True

    def _observers(self) -> list[execution.Observer]:
        options = self.options
        only_changes = options.mlir_print_ir_after_change
        only_failures = options.mlir_print_ir_after_failure
        before, after = (
            tuple(name for names in given for name in names.split(","))
            for given in (options.mlir_print_ir_before, options.mlir_print_ir_after)
        )
        printer = IRPrinter(
            self.flags,
            before_all=options.mlir_print_ir_before_all,
            after_all=options.mlir_print_ir_after_all
            or (not after and (only_changes or only_failures)),
            only_changes=only_changes,
            only_failures=only_failures,
            module_scope=options.mlir_print_ir_module_scope,
            before_passes=before,
            after_passes=after,
        )
        observers: list[execution.Observer] = [self.timing, printer, UnmatchedSchedules()]
        if self.reproducer is not None:
            observers.append(self.reproducer)
        return observers


def _without_reason(part: Part, error: Exception) -> str:
    """What to say where MLIR says no more than that it failed."""
    what = str(error).partition("\n")[0]
    hint = 'operations of llmc are written in the generic form, "llmc.linear"(...)'
    return f"{part.source.name}: {what}, for no reason that MLIR tells; {hint}"


def _write_file(name: str, sink: BytesIO) -> None:
    try:
        Path(name).write_bytes(sink.getvalue())
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror}") from error
