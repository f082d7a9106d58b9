"""The exceptions that a user is meant to read."""


class UserError(Exception):
    """Something the user can mend: one line that names what is wrong and what to do.

    `llmc` prints it after `llmc: error: ` and exits with status 2; a traceback never shows.
    """


class RankError(UserError):
    """One of the ranks that run a model together is lost, and the model with it."""
