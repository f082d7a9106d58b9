"""Extents as expressions of symbols such as `tokens`: how they compare, print and are bounded."""

from collections.abc import Iterable, Mapping

import sympy
from sympy import Expr

Terms = Mapping[Expr, int]

_SIGNS = dict.fromkeys(("batch", "tokens", "sequences", "capacity"), "positive")
_INCREASING = (sympy.Add, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling)


def symbol(name: str) -> sympy.Symbol:
    """A symbol that means the same everywhere: an extent, or a number that is not negative."""
    return sympy.Symbol(name, integer=True, **{_SIGNS.get(name, "nonnegative"): True})


def unknown(name: str = "n") -> sympy.Dummy:
    """An extent that differs from every other symbol, even of the same name."""
    return sympy.Dummy(name, integer=True, nonnegative=True)


def unknown_integer() -> sympy.Dummy:
    """An integer of any sign that differs from every other symbol."""
    return sympy.Dummy("i", integer=True)


def differ(a: Expr, b: Expr) -> bool:
    """Whether two extents are seen to be different whatever the symbols stand for."""
    least, most = _interval((a - b).expand(), {})
    return bool(least > 0 or most < 0)


def is_natural(expression: Expr) -> bool:
    """Whether `expression` is seen not to be negative."""
    least, _ = _interval(expression, {})
    return bool(least >= 0)


def replaced(expression: Expr, meaning: Mapping[sympy.Symbol, Expr]) -> Expr:
    """`expression` with symbols replaced by what they stand for."""
    return expression.xreplace(meaning)


def text(expression: Expr) -> str:
    """As Python, with `floor`, `ceiling`, `Max` and `Min`: what sympy can read back."""
    names = {each: sympy.Symbol(each.name) for each in expression.atoms(sympy.Dummy)}
    return sympy.sstr(replaced(expression, names))


def upper_bound(expression: Expr, limits: Mapping[sympy.Symbol, int]) -> int | None:
    """What `expression` does not exceed if its symbols do not exceed `limits`; None: no such."""
    _, most = _interval(expression, limits)
    return int(sympy.floor(most)) if most.is_finite else None


def largest(expressions: Iterable[Expr]) -> list[Expr]:
    """Those of several polynomials that are the largest for some values of the symbols.

    A few that are not may be among them.
    """
    kept: dict[Expr, Terms] = {}
    for candidate in dict.fromkeys(each.expand() for each in expressions):
        terms = _terms(candidate)
        if any(_at_least(other, terms) for other in kept.values()):
            continue
        kept = {each: other for each, other in kept.items() if not _at_least(terms, other)}
        kept[candidate] = terms
    return list(kept)


def maximum(expressions: Iterable[Expr]) -> Expr:
    """The maximum of several polynomials, as short as may be."""
    return sympy.Max(*map(sympy.factor_terms, largest(expressions)), evaluate=False)


def _terms(polynomial: Expr) -> Terms:
    """The factors of the products of symbols, each symbol counted from the least that it can be."""
    ones = [each for each in polynomial.free_symbols if each.is_positive]
    from_zero = replaced(polynomial, {each: each + 1 for each in ones})
    return from_zero.expand().as_coefficients_dict()


def _at_least(a: Terms, b: Terms) -> bool:
    """Whether `a >= b` can be seen term by term."""
    return all(
        a.get(term, 0) >= b.get(term, 0) and (a.get(term, 0) == b.get(term, 0) or is_natural(term))
        for term in a.keys() | b.keys()
    )


def _interval(expression: Expr, limits: Mapping[sympy.Symbol, int]) -> tuple[Expr, Expr]:
    """An interval, perhaps without end, that `expression` lies in."""
    if expression.is_number:
        return expression, expression
    if expression.is_Symbol:
        return _least(expression), sympy.sympify(limits.get(expression, sympy.oo))
    parts = [_interval(part, limits) for part in expression.args]
    least, most = zip(*parts, strict=True)
    if expression.is_Mul:
        return _product(parts)
    if expression.is_Pow and least[0] >= (0 if expression.exp.is_positive else 1):
        corners = [base**expression.exp for base in parts[0]]
        return min(corners), max(corners)
    if isinstance(expression, _INCREASING):
        return expression.func(*least), expression.func(*most)
    return -sympy.oo, sympy.oo


def _least(symbol_: sympy.Symbol) -> Expr:
    if symbol_.is_positive:
        return sympy.S.One
    return sympy.S.Zero if symbol_.is_nonnegative else -sympy.oo


def _product(factors: list[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    least, most = factors[0]
    for factor in factors[1:]:
        corners = [_times(a, b) for a in (least, most) for b in factor]
        least, most = min(corners), max(corners)
    return least, most


def _times(a: Expr, b: Expr) -> Expr:
    """A product in which 0 times infinity, as 0 times any number, is 0."""
    return sympy.S.Zero if a.is_zero or b.is_zero else a * b
