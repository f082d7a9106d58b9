"""Says in a line where an exception came from that no code of ours means to raise."""

import traceback
from pathlib import Path


def described(error: BaseException) -> str:
    """The kind of exception, its message, and the file and the line that raised it."""
    message = " ".join(str(error).split())
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {message} ({Path(frame.filename).name}:{frame.lineno})"
