"""What can go wrong in the compiler, apart so that the command line can name it cheaply."""


class IREEError(Exception):
    """IREE could not compile the module; the text is its diagnostics."""
