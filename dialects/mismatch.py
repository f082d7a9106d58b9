"""The error by which a check of a verifier says what is wrong with an operation."""


class MismatchError(Exception):
    """What is wrong with an operation; with what it declares under `name`, where given."""

    def __init__(self, fault: str, name: str | None = None) -> None:
        super().__init__(fault)
        self.name = name


def require(condition: bool, fault: str, name: str | None = None) -> None:
    """Raises MismatchError unless `condition` holds."""
    if not condition:
        raise MismatchError(fault, name)
