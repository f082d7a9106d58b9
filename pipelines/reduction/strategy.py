"""What a way of making modules smaller is.

A strategy lists the edits that a module allows, in the order of its text. Each edit is a function
that changes the module. Any of them may be done, in reverse order, so that users go before what
they use, and inner operations before outer ones. The module may be invalid after an edit: whoever
edits verifies.
"""

from collections.abc import Callable

from torch_mlir import ir

Edit = Callable[[], None]
Strategy = Callable[[ir.Module], list[Edit]]
