"""The one exception that a user is meant to read."""


class UserError(Exception):
    """Something the user can mend: one line that names what is wrong and what to do.

    `llmc` prints it after `llmc: error: ` and exits with status 2; a traceback never shows.
    """
