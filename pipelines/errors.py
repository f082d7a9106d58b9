"""What can go wrong in the compiler, apart so that the command line can name it cheaply."""

import re

_FIRST = re.compile(r"\berror: (.+)")


class IREEError(Exception):
    """IREE could not compile the module; the text is its diagnostics."""

    @property
    def first(self) -> str:
        """The first error of them, in one line, without its place."""
        found = _FIRST.search(str(self))
        return found[1].rstrip(".") if found else "no diagnostic given"
