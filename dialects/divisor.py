"""The largest divisor of a number: how many of a few things make equal parts."""


def divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is at most `most`, which is at least 1."""
    return next(count for count in range(most, 0, -1) if number % count == 0)
