"""How IR is printed: MLIR's printing flags, and an observer that prints before and after passes."""

import sys
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.pipelines.driver.execution import Observer, Root, SinglePass


@dataclass(frozen=True)
class PrintingFlags:
    """The flags of MLIR's printer; the limits are counts of elements and of letters."""

    generic: bool = False
    debug_info: bool = False
    pretty_debug_info: bool = False
    local_scope: bool = False
    elements_limit: int | None = None
    resource_limit: int | None = None

    def text(self, operation: ir.Operation) -> str:
        """The text of `operation`, without a newline at its end."""
        return operation.get_asm(
            large_elements_limit=self.elements_limit,
            large_resource_limit=self.resource_limit,
            enable_debug_info=self.debug_info or self.pretty_debug_info,
            pretty_debug_info=self.pretty_debug_info,
            print_generic_op_form=self.generic,
            use_local_scope=self.local_scope,
        ).rstrip("\n")


@dataclass
class IRPrinter(Observer):
    """Prints the IR to standard error before and after passes, as MLIR's pass manager does.

    MLIR prints around its own passes itself; this does the same around ours.
    """

    flags: PrintingFlags
    before_all: bool = False
    after_all: bool = False
    only_changes: bool = False
    only_failures: bool = False
    module_scope: bool = False
    before_passes: tuple[str, ...] = ()
    after_passes: tuple[str, ...] = ()
    _text_before: str = field(default="", init=False)

    def configure(self, single: SinglePass, manager: PassManager) -> None:
        """Has MLIR print around its pass."""
        if not self._wants_before(single) and not self._wants_after(single):
            return
        manager.enable_ir_printing(
            print_before_all=self._wants_before(single),
            print_after_all=self._wants_after(single),
            print_module_scope=self.module_scope,
            print_after_change=self.only_changes,
            print_after_failure=self.only_failures,
            large_elements_limit=self.flags.elements_limit,
            large_resource_limit=self.flags.resource_limit,
            enable_debug_info=self.flags.debug_info,
            print_generic_op_form=self.flags.generic,
        )

    def before(self, single: SinglePass, root: Root) -> None:
        """Prints the IR before a pass of ours."""
        if isinstance(single.pass_, str):
            return
        if self._wants_before(single):
            self._print("Before", single, root)
        if self.only_changes:
            self._text_before = self.flags.text(root.operation)

    def after(self, single: SinglePass, root: Root) -> None:
        """Prints the IR after a pass of ours."""
        if isinstance(single.pass_, str) or not self._wants_after(single) or self.only_failures:
            return
        if not self.only_changes or self.flags.text(root.operation) != self._text_before:
            self._print("After", single, root)

    def failed(self, single: SinglePass, root: Root) -> None:
        """Prints the IR that a pass of ours left when it failed."""
        if not isinstance(single.pass_, str) and self._wants_after(single):
            self._print("After", single, root, " Failed")

    def _wants_before(self, single: SinglePass) -> bool:
        return self.before_all or single.name in self.before_passes

    def _wants_after(self, single: SinglePass) -> bool:
        return self.after_all or single.name in self.after_passes

    def _print(self, when: str, single: SinglePass, root: Root, outcome: str = "") -> None:
        kind = type(single.pass_).__name__
        print(
            f"// -----// IR Dump {when} {kind}{outcome}: {single.name} //----- //", file=sys.stderr
        )
        print(self.flags.text(root.operation), end="\n\n", file=sys.stderr, flush=True)
