"""What `llmc-opt` does once its command line is read."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver import execution
from llmc.pipelines.driver.diagnostics import Source
from llmc.pipelines.driver.expected_diagnostics import ExpectedDiagnostics
from llmc.pipelines.driver.reproducer import Reproducer, stored
from llmc.pipelines.driver.roundtrip import verify_roundtrip
from llmc.pipelines.driver.timing import Timing
from llmc.pipelines.errors import PassError
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.schedule_kernels import ScheduleKernels
from llmc.pipelines.pipeline import Step
from llmc.pipelines.registry import (
    MODULE,
    ParsedPipeline,
    dialect_names,
    is_pass,
    list_passes,
    list_pipelines,
    list_schedules,
    parse_pass,
    parse_pipeline,
)
from llmc.pipelines.schedules.transform_ops.dialect import load as load_transform_operations
from llmc.runtime.errors import UserError
from llmc.tools.opt.custom_forms import refuse_custom_form
from llmc.tools.opt.flags import SEPARATOR
from llmc.tools.opt.meanings import diagnostic_flags, ir_dumps, names, printing_flags
from llmc.tools.opt.schedule_dump import ScheduleDump, Script, are_named, named_scripts
from llmc.tools.opt.source_files import Part, read_parts
from llmc.tools.opt.unmatched_schedules import UnmatchedSchedules
from llmc.tools.terminal import write

# Takes a piece of the output.
Emit = Callable[[bytes], object]


def run(options: argparse.Namespace) -> int:
    """Does what `options` say; 0, or 1 where a part of the file failed. Raises UserError."""
    if options.version:
        write(f"{_version()}\n")
        return 0
    listing = _listing(options)
    if listing:
        write("\n".join(listing) + "\n")
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


def _version() -> str:
    return f"llmc {version('llmc-compiler')}, with MLIR of torch-mlir {version('torch-mlir')}"


def _context() -> ir.Context:
    context = ir.Context()
    context.emit_error_diagnostics = True
    dialects.load(context)
    load_transform_operations(context)
    return context


class _Session:
    """One run of the command: the parts of one file through one pipeline, in one context."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.timing = Timing(as_list=options.mlir_timing_display == "list")
        self.flags = printing_flags(options)
        self.diagnostics = diagnostic_flags(options)
        self.verify_each: bool = options.verify_each
        self.context = _context()
        self.show = Source(options.file, "", self.diagnostics).show
        self.told = False
        self.dump: ScheduleDump | None = None
        self.unmatched = UnmatchedSchedules()
        self.context.attach_diagnostic_handler(self._tell)
        if options.mlir_disable_threading or options.mlir_print_ir_module_scope:
            self.context.enable_multithreading(False)

    def _tell(self, diagnostic: ir.Diagnostic) -> bool:
        self.told = True
        return self.show(diagnostic)

    def run(self) -> int:
        """Writes each part as the pipeline leaves it."""
        options = self.options
        if options.dump_schedule and not options.run_reproducer:
            steps = self._pipeline(()).steps
            if are_named(steps):
                return self._dump_named(steps)
        marker = options.split_input_file or None
        parts = read_parts(options.file, marker=marker, flags=self.diagnostics)
        pipeline = self._pipeline(parts)
        self._check_dumped_passes()
        if options.dump_pass_pipeline:
            with self.context:
                print(execution.describe(pipeline.steps, pipeline.anchor), file=sys.stderr)
        # To standard output at once, to a file if all went well.
        held, is_file = BytesIO(), options.output != "-"
        emit = held.write if is_file else write
        failed = False
        for number, part in enumerate(parts):
            if number:
                emit(f"{options.output_split_marker}\n".encode())
            failed |= not self._run_part(part, pipeline, emit)
        self.unmatched.warn_of_unused()
        if is_file and not failed:
            _write_file(options.output, held)
        if options.mlir_timing:
            print(self.timing.table(), file=sys.stderr)
        return int(failed)

    def _dump_named(self, steps: Sequence[Step]) -> int:
        """Prints the transform scripts of schedules that no module is needed for."""
        with self.context, ir.Location.unknown():
            try:
                scripts = list(named_scripts(steps))
            except ir.MLIRError:  # of which a diagnostic told
                return 1
            if not scripts:
                raise UserError(
                    "--dump-schedule needs --schedule, --schedule-file or --schedule-kernels"
                )
        held = BytesIO()
        self._write_scripts(scripts, held.write)
        if self.options.output == "-":
            write(held.getvalue())
        else:
            _write_file(self.options.output, held)
        return 0

    def _write_scripts(self, scripts: Sequence[Script], emit: Emit) -> None:
        """One after the other, as --split-input-file reads them."""
        texts = (
            f"{script.heading}{self.flags.text(script.module.operation)}\n" for script in scripts
        )
        emit(f"{SEPARATOR}\n".join(texts).encode())

    def _pipeline(self, parts: Sequence[Part]) -> ParsedPipeline:
        options = self.options
        if options.run_reproducer:
            reproducer = stored(parts[0].source.text, options.file)
            self.verify_each &= reproducer.verify_each
            return parse_pipeline(reproducer.pipeline, self.context)
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
        return parse_pass(
            text, self.context, [name.replace("_", "-") for name in vars(self.options)]
        )

    def _check_dumped_passes(self) -> None:
        """UserError for a pass to print the IR around that does not exist."""
        for when in ("before", "after"):
            for name in names(getattr(self.options, f"mlir_print_ir_{when}")):
                if not is_pass(name, self.context):
                    raise UserError(f"--mlir-print-ir-{when}: there is no pass '{name}'")

    def _run_part(self, part: Part, pipeline: ParsedPipeline, emit: Emit) -> bool:
        """Whether all went well with `part`, or as its comments expect."""
        if not self.options.verify_diagnostics:
            self.show = part.source.show
            return self._transform(part, pipeline, emit)
        expected = ExpectedDiagnostics(
            part.source, only_expected=self.options.verify_diagnostics == "only-expected"
        )
        self.show = expected.check
        self._transform(part, pipeline, emit)
        report = expected.report()
        if report:
            print("\n".join(report), file=sys.stderr)
        return not report

    def _transform(self, part: Part, pipeline: ParsedPipeline, emit: Emit) -> bool:
        """Whether `part` could be parsed and transformed; if so it is emitted."""
        options, self.told = self.options, False
        self.dump = ScheduleDump() if options.dump_schedule else None
        self.context.allow_unregistered_dialects = options.allow_unregistered_dialect
        reproducer = self._reproducer(options.reproducer)
        try:
            root = self._parse(part)
            generated = self._reproducer(options.mlir_generate_reproducer)
            if generated is not None:
                with self.context:
                    text = execution.spelled(pipeline.steps, pipeline.anchor)
                generated.write_now(text, root.operation)
            execution.run(
                pipeline.steps,
                root,
                anchor=pipeline.anchor,
                observers=self._observers(pipeline, reproducer),
                verify_each=self.verify_each,
            )
        except (ir.MLIRError, PassError) as error:
            if not self.told:
                raise UserError(_without_reason(part, error)) from error
            if reproducer is not None and reproducer.written:
                print(_note(reproducer), file=sys.stderr)
            return False
        except UserError as error:
            if reproducer is None or not reproducer.written:
                raise
            raise UserError(f"{error}\n{_note(reproducer)}") from error
        with self.timing.part("Output"):
            if self.dump is None:
                self._write(root.operation, emit)
            else:
                self._write_scripts(list(self.dump.scripts()), emit)
        return True

    def _parse(self, part: Part) -> execution.Root:
        options = self.options
        with self.timing.part("Parser"):
            try:
                root = part.parse(self.context, implicit_module=not options.no_implicit_module)
            except ir.MLIRError:
                self.told = self.told or refuse_custom_form(part.source, self.context)
                raise
        if options.verify_roundtrip:
            verify_roundtrip(root.operation)
        return root

    def _write(self, op: ir.Operation, emit: Emit) -> None:
        if not self.options.emit_bytecode:
            emit(self.flags.encoded(op) + b"\n")
            return
        version, bytecode = self.options.emit_bytecode_version, BytesIO()
        try:
            op.write_bytecode(bytecode, desired_version=version)
        except ValueError as error:
            raise UserError(f"cannot write bytecode of version {version}") from error
        emit(bytecode.getvalue())

    def _reproducer(self, name: str | None) -> Reproducer | None:
        options = self.options
        if name is None:
            return None
        return Reproducer(
            Path(name),
            verify_each=self.verify_each,
            unregistered=options.allow_unregistered_dialect,
            implicit_module=not options.no_implicit_module,
        )

    def _observers(
        self, pipeline: ParsedPipeline, reproducer: Reproducer | None
    ) -> list[execution.Observer]:
        """Who has to look on: where nobody has, MLIR runs its passes on several threads."""
        observers: list[execution.Observer] = []
        dumps = ir_dumps(self.options, self.flags)
        if dumps.is_needed:
            observers.append(dumps)
        if any(isinstance(step, (ApplySchedule, ScheduleKernels)) for step in pipeline.steps):
            observers.append(self.unmatched)
        if self.dump is not None:
            observers.append(self.dump)
        if reproducer is not None:
            observers.append(reproducer)
        if self.options.mlir_timing:
            observers.append(self.timing)
        return observers


def _note(reproducer: Reproducer) -> str:
    return f"note: to see it again: {reproducer.command}"


def _without_reason(part: Part, error: Exception) -> str:
    """What to say where MLIR says no more than that it failed."""
    what = str(error).partition("\n")[0]
    return f"{part.source.name}: {what}, for no reason that MLIR tells"


def _write_file(name: str, held: BytesIO) -> None:
    try:
        Path(name).write_bytes(held.getvalue())
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror}") from error
