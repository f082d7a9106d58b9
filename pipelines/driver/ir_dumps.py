"""Prints the IR before and after passes, as MLIR's pass manager does."""

import re
import sys
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import add
from pathlib import Path

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass
from llmc.pipelines.driver.pass_classes import class_name
from llmc.pipelines.driver.printing import PrintingFlags
from llmc.pipelines.rewriting.operations import upwards
from llmc.runtime.errors import UserError

_NO_SYMBOL = "no-symbol-name"


@dataclass
class IRDumps(Observer):
    """Dumps to standard error, or to a tree of files below `directory`.

    MLIR's own printing around its passes knows neither all flags nor our passes, and is not used.
    """

    flags: PrintingFlags
    before_all: bool = False
    after_all: bool = False
    only_changes: bool = False
    only_failures: bool = False
    module_scope: bool = False
    before_passes: tuple[str, ...] = ()
    after_passes: tuple[str, ...] = ()
    directory: Path | None = None
    _text_before: bytes = field(default=b"", init=False)
    _numbers: dict[tuple[str, ...], int] = field(default_factory=dict, init=False)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to dump."""
        return bool(self.before_all or self.after_all or self.before_passes or self.after_passes)

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Dumps the IR before a pass."""
        if self.before_all or single.name in self.before_passes:
            self._dump("Before", single, op)
        if self.only_changes and self._wants_after(single):
            self._text_before = PrintingFlags().encoded(op)

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Dumps the IR after a pass, if it should."""
        if self.only_failures or not self._wants_after(single):
            return
        if not self.only_changes or PrintingFlags().encoded(op) != self._text_before:
            self._dump("After", single, op)

    def failed(self, single: SinglePass, op: ir.Operation) -> None:
        """Dumps the IR that a pass left when it failed."""
        if self._wants_after(single):
            self._dump("After", single, op, " Failed")

    def _wants_after(self, single: SinglePass) -> bool:
        return self.after_all or single.name in self.after_passes

    def _dump(self, when: str, single: SinglePass, op: ir.Operation, outcome: str = "") -> None:
        name = f"{class_name(single)}{outcome}: {single.text}"
        *_, top = upwards(op)
        root, flags = op, self.flags
        if self.module_scope:
            root = top
            name += f" ('{op.name}' operation{_at(op)})"
        elif op != top:
            flags = replace(flags, local_scope=True)  # whose aliases would not stand above it
        text = f"// -----// IR Dump {when} {name} //----- //\n{flags.text(root)}\n"
        if self.directory is None:
            print(text, file=sys.stderr, flush=True)
        else:
            _write(self._path(single, op, self.directory), text)

    def _path(self, single: SinglePass, op: ir.Operation, directory: Path) -> Path:
        """A file in a folder for the operation, below those of its parents; files are numbered."""
        folders = [_folder(each) for each in upwards(op)][::-1]
        *above, own = accumulate(((folder,) for folder in folders), add)
        for each in above:
            self._numbers.setdefault(each, 0)
        self._numbers[own] = self._numbers.get(own, -1) + 1
        numbers = "_".join(str(self._numbers[each]) for each in (*above, own))
        return directory.joinpath(*folders, f"{numbers}_{single.name}.mlir")


def _symbol(op: ir.Operation) -> str:
    symbol = op.attributes.get("sym_name")
    if not isinstance(symbol, ir.StringAttr):
        return ""
    return symbol.value_bytes.decode("utf-8", "backslashreplace")


def _folder(op: ir.Operation) -> str:
    return re.sub(r"[^\w-]", "_", f"{op.name}_{_symbol(op) or _NO_SYMBOL}")


def _at(op: ir.Operation) -> str:
    return f": @{_symbol(op)}" if _symbol(op) else ""


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
