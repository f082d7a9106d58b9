"""The exceptions that a user is meant to read, and those that become them."""

# What IREE's bindings raise, by the kind of failure.
IREE_ERRORS = (RuntimeError, ValueError, IndexError, OSError)


class UserError(Exception):
    """Something the user can mend: one line that names what is wrong and what to do.

    `llmc` prints it after `llmc: error: ` and exits with status 2; a traceback never shows.
    """


class RankError(UserError):
    """One of the ranks that run a model together is lost, and the model with it."""


def first_line(error: BaseException) -> str:
    """The first line of what `error` says; its type's name where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def printable(text: object) -> str:
    """The words of `text` on one line, a question mark for what could steer a terminal."""
    line = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def one_line(text: object) -> str:
    """The text of an exception or a file, fit for one line of a terminal; at most 200 letters."""
    if isinstance(text, KeyError):  # whose text is the bare key
        text = f"{text} is not known"
    return printable(text)[:200] or type(text).__name__
