"""Schedules of a user's own: a function in a Python file, or a library of transform scripts."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import ModuleType

from torch_mlir import ir

from llmc.pipelines.option_text import parse_options
from llmc.pipelines.schedules.handles import Handle
from llmc.pipelines.schedules.schedule import ENTRY, PythonSchedule, Schedule
from llmc.pipelines.schedules.transform_ops.dialect import load
from llmc.runtime.errors import UserError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_RUNS_LATER = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
"""What tells functions a call of which does nothing yet."""

_CALL = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)\s*(\{(?P<options>.*)\})?\s*")


def load_schedule(text: str) -> Schedule:
    """`FILE.py:FUNCTION`, perhaps with options in braces, or a transform library `FILE.mlir`.

    The function is as those of ours are: it takes a `Handle` on the payload and, where it has
    options, a second argument annotated with a dataclass. The file may import others of its folder.
    UserError for anything else, and for what goes wrong in the file.
    """
    if text.endswith(".mlir"):
        return LibrarySchedule(Path(text))
    call = _CALL.fullmatch(text)
    if call is None:
        raise UserError(f"a schedule file is FILE.py:FUNCTION or FILE.mlir, not '{text}'")
    path = Path(call["path"])
    options = call["options"] or ""
    what = f"schedule '{call['name']}'"
    _require_readable(path)
    with _blamed_on(path), _beside(path):
        function = _function(path, call["name"])
        argument = _options_of(function, f"{path}:{call['name']}")
        if argument is None and options:
            raise UserError(f"{path}:{call['name']} takes no options, but was given '{options}'")
        parameters = argument and _parsed(what, argument, options)
    return UserSchedule(function, parameters, path)


@dataclass(frozen=True)
class UserSchedule(PythonSchedule):
    """A function of the file `path`."""

    path: Path = Path()

    def emit(self, payload: Handle) -> None:
        """As the function does; UserError names the line of the file where it failed."""
        with _blamed_on(self.path), _beside(self.path):
            super().emit(payload)


@dataclass(frozen=True)
class LibrarySchedule(Schedule):
    """A file of MLIR with the sequence `@__transform_main`, which may call others in it."""

    path: Path

    def script(self) -> ir.Module:
        """The file's module; MLIRError where it is not valid MLIR, of which a diagnostic tells."""
        load(ir.Context.current)
        _require_readable(self.path)
        module = ir.Module.parseFile(str(self.path))
        symbols = ir.SymbolTable(module.operation)
        if ENTRY not in symbols or symbols[ENTRY].operation.name != "transform.named_sequence":
            several = ", but several modules: give one" if _has_modules(module) else ""
            raise UserError(f"{self.path} has no transform.named_sequence @{ENTRY}{several}")
        return module


def _has_modules(module: ir.Module) -> bool:
    return any(op.operation.name == "builtin.module" for op in module.body)


def _function(path: Path, name: str) -> Callable[..., None]:
    function = getattr(_module(path), name, None)
    if function is None:
        raise UserError(f"{path} has no function '{name}'")
    if not inspect.isfunction(function):
        raise UserError(f"'{name}' of {path} is not a function")
    if any(runs_later(function) for runs_later in _RUNS_LATER):
        raise UserError(f"'{name}' of {path} must be a plain function: no async, no yield")
    return function


def _module(path: Path) -> ModuleType:
    """The file, run as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"llmc_schedule_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"cannot read {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


def _require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """Turns an error of code in a user's file, which is not ours, into UserError."""
    try:
        yield
    except UserError:
        raise
    except SyntaxError as error:
        raise UserError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise UserError(_told(error, path)) from error


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Lets a file import its neighbours, which files of other folders are not to find."""
    folder, before = path.resolve().parent, set(sys.modules)
    # Last, that none hides a module which others import.
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        new = sys.modules.keys() - before
        neighbours = {name for name in new if _is_in(folder, name)}
        for name in new:
            if name.partition(".")[0] in neighbours:
                del sys.modules[name]


def _is_in(folder: Path, name: str) -> bool:
    """Whether a module, or a package, was found in the folder itself."""
    file = getattr(sys.modules[name], "__file__", None)
    return file in (str(folder / f"{name}.py"), str(folder / name / "__init__.py"))


def _parsed(what: str, argument: inspect.Parameter, options: str) -> object:
    """What the function is given: options that are not named are those of its default."""
    kind, default = argument.annotation, argument.default
    return parse_options(what, kind, options, default if isinstance(default, kind) else None)


def _options_of(function: Callable[..., None], what: str) -> inspect.Parameter | None:
    """The argument that a dataclass of the function's options is for; None where it has none."""
    # A file may import what it annotates a payload with for type checkers alone.
    known = {Handle.__name__: Handle}
    try:
        signature = inspect.signature(function, locals=known, eval_str=True)
    except Exception as error:  # what an annotation computes
        raise UserError(f"{what}: an annotation is unknown: {error}") from error
    arguments = list(signature.parameters.values())
    are_positional = all(each.kind in _POSITIONAL for each in arguments)
    if len(arguments) == 1 and are_positional:
        return None
    kind = arguments[-1].annotation if len(arguments) == 2 and are_positional else None
    if isinstance(kind, type) and is_dataclass(kind):
        return arguments[-1]
    raise UserError(f"{what} must take a payload and perhaps a dataclass, annotated as such")


def _told(error: BaseException, path: Path) -> str:
    """The error in a line, and where in the file, or in a neighbour, it came from."""
    place, traceback = f"{path}", error.__traceback__
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_file() and file.resolve().parent == path.resolve().parent:
            place = f"{path.parent / file.name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return f"{place}: {type(error).__name__}: {' '.join(str(error).split())}"
