"""Numbers, counts and lists as they stand in a sentence or a table: one form of each for the whole package."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from math import floor, isfinite, log10

__all__ = [
    "count",
    "interval",
    "listed",
    "number",
    "one_part_in",
    "percent",
    "percent_at_most",
    "power_of_ten",
    "rate",
    "show_score",
]

FEW_CASES = 20
"""Below this many cases a count says more than a percentage."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: int | float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits, thousands separated, with an exponent only if needed.

    Example:
        >>> number(0.12345), number(994_321.0), number(24.0), number(3.24e-7), number(7.2e12), number(0.0)
        ('0.123', '994,000', '24', '3.24e-7', '7.2e12', '0')
    """
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else str(value)
    rounded = float(f"{value:.{digits}g}")
    if 1e-3 <= abs(rounded) < 1e9:
        return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def percent(fraction: int | float, digits: int = 2) -> str:
    """Return a fraction as a percentage.

    Example:
        >>> percent(0.91), percent(0.0012), percent(1.0), percent(0.9876, digits=3), percent(12.3)
        ('91 %', '0.12 %', '100 %', '98.8 %', '1,200 %')
    """
    return f"{number(100 * fraction, digits)} %"


def percent_at_most(fraction: int | float) -> str:
    """Return a fraction as a percentage of two digits, rounded up so that a bound stays one.

    Example:
        >>> percent_at_most(0.00801), percent_at_most(2.4411), percent_at_most(1e-13), percent_at_most(7e9)
        ('0.81 %', '250 %', '0.0001 %', '7e+11 %')
    """
    if fraction == 0 or not isfinite(fraction):
        return "0 %" if fraction == 0 else "no finite %"
    value = max(100 * Decimal(repr(fraction)), Decimal("0.0001"))
    rounded = value.quantize(Decimal(1).scaleb(value.adjusted() - 1), rounding=ROUND_CEILING).normalize()
    return f"{rounded:,f} %" if rounded < 10**6 else f"{float(rounded):.2g} %"


def rate(hits: int, cases: int) -> str:
    """Return how often something happened: a count below 20 cases, a percentage from there on.

    Example:
        >>> rate(3, 7), rate(91, 100)
        ('3 of 7', '91 %')
    """
    return f"{hits} of {cases}" if cases < FEW_CASES else percent(hits / cases)


def count(cases: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    Example:
        >>> count(1, "step"), count(2000, "case"), count(0, "query", "queries")
        ('1 step', '2,000 cases', '0 queries')
    """
    return f"{cases:,} {noun if cases == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names as a list in a sentence.

    Example:
        >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
        ('a', 'a, b and c', '')
    """
    *others, end = tuple(names) or ("",)
    return f"{', '.join(others)} {last} {end}" if others else end


def interval(
    value: int | float | None,
    low: int | float | None = None,
    high: int | float | None = None,
    form: str = ".3g",
    unit: int | float = 1,
) -> str:
    """Return a mean with its interval in brackets, each multiplied by `unit`; what is not known is left out.

    Example:
        >>> interval(0.5, 0.25, 0.75, ".0f", unit=100), interval(0.5), interval(None)
        ('50 [25, 75]', '0.5', '')
    """
    if value is None:
        return ""
    ends = "" if low is None or high is None else f" [{unit * low:{form}}, {unit * high:{form}}]"
    return f"{unit * value:{form}}{ends}"


def show_score(value: int | float, task: str) -> str:
    """Return a held-out score: accuracy for classes, else R².

    Example:
        >>> show_score(0.981, "classification"), show_score(0.481, "regression")
        ('98.1 %', 'R² 0.481')
    """
    return f"{100 * value:.1f} %" if task == "classification" else f"R² {value:.3f}"


def power_of_ten(log10_value: int | float) -> str:
    """Return a number given by its logarithm: in digits below ten million, else as a power of ten.

    Example:
        >>> power_of_ten(3.5), power_of_ten(12.4)
        ('3,200', '10¹²')
    """
    if log10_value < 7:
        return f"{float(f'{10**log10_value:.2g}'):,.0f}"
    return "10" + str(round(log10_value)).translate(SUPERSCRIPTS)


def one_part_in(fraction: int | float) -> str:
    """Return a small fraction as one part in a round number, rounded up so that a bound stays one.

    Example:
        >>> one_part_in(6.5e-8), one_part_in(0.02), one_part_in(0.3), one_part_in(0.0)
        ('one part in ten million', 'one part in ten', 'one part in one', 'nothing')
    """
    if fraction <= 0:
        return "nothing"
    power = max(0, floor(-log10(fraction)))
    thousands = {3: "thousand", 6: "million", 9: "billion", 12: "trillion"}
    base = max((key for key in thousands if key <= power), default=0)
    if base == 0:
        return f"one part in {('one', 'ten', 'a hundred')[power]}"
    if power - base > 2:
        return f"one part in 10^{power}"
    return f"one part in {('a', 'ten', 'a hundred')[power - base]} {thousands[base]}"
