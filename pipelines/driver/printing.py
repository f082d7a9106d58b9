"""How IR is printed: the flags of MLIR's printer."""

import sys
from dataclasses import dataclass

from torch_mlir import ir


@dataclass(frozen=True)
class PrintingFlags:
    """The flags of MLIR's printer; the limits are counts of elements and of letters."""

    generic: bool = False
    debug_info: bool = False
    pretty_debug_info: bool = False
    local_scope: bool = False
    assume_verified: bool = False
    skip_regions: bool = False
    names_from_locations: bool = False
    elements_limit: int | None = None
    resource_limit: int | None = None

    def encoded(self, operation: ir.Operation) -> bytes:
        """The text of `operation`, without a newline at its end, as UTF-8 if its strings are."""
        text: bytes = operation.get_asm(
            binary=True,
            large_elements_limit=self.elements_limit,
            # Without, the binding takes the limit of elements for it.
            large_resource_limit=sys.maxsize
            if self.resource_limit is None
            else self.resource_limit,
            enable_debug_info=self.debug_info or self.pretty_debug_info,
            pretty_debug_info=self.pretty_debug_info,
            print_generic_op_form=self.generic,
            use_local_scope=self.local_scope,
            use_name_loc_as_prefix=self.names_from_locations,
            assume_verified=self.assume_verified,
            skip_regions=self.skip_regions,
        )
        return text.rstrip(b"\n")

    def text(self, operation: ir.Operation) -> str:
        """As `encoded`, for people to read."""
        return self.encoded(operation).decode("utf-8", "backslashreplace")
