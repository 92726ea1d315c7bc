"""Numbers in sentences: the digits that were asked for, and never an exponent that a person would not write."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.core.words import count, number, one_part_in, percent, percent_at_most, power_of_ten, rate


@given(st.floats(1e-12, 1e14), st.integers(1, 6))
def test_a_number_keeps_its_significant_digits(value, digits):
    for signed in (value, -value):
        shown = number(signed, digits)
        assert float(shown.replace(",", "")) == pytest.approx(signed, rel=0.5 * 10 ** (1 - digits))
        assert not re.search(r"e[+-]?0", shown)
        assert "e" not in shown or not 2e-3 <= value <= 9e8


def test_large_numbers_have_separators():
    assert [number(x) for x in (999.6, 12_345, 994_000.0, 1e8)] == ["1,000", "12,300", "994,000", "100,000,000"]
    assert (number(float("inf")), number(float("nan"))) == ("inf", "nan")


@given(st.floats(1e-6, 1e6))
def test_a_bound_in_per_cent_is_rounded_up(fraction):
    assert float(percent_at_most(fraction).removesuffix(" %").replace(",", "")) >= 100 * fraction * (1 - 1e-12)


def test_few_cases_are_counted():
    assert (rate(3, 19), rate(3, 20)) == ("3 of 19", "15 %")
    assert percent(0.0004) == "0.04 %"
    assert (count(1, "class", "classes"), count(1000, "class", "classes")) == ("1 class", "1,000 classes")


@pytest.mark.parametrize(("log10", "shown"), [(0, "1"), (6.9, "7,900,000"), (-0.0, "1"), (43.2, "10⁴³")])
def test_powers_of_ten(log10, shown):
    assert power_of_ten(log10) == shown


@given(st.floats(1e-13, 0.99))
def test_one_part_in_is_never_too_small(fraction):
    words = {"one": 1, "a": 1, "ten": 10, "hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9}
    words["trillion"] = 1e12
    shown = one_part_in(fraction).removeprefix("one part in ")
    parts = 1.0
    for word in shown.split():
        parts *= words[word] if word in words else 10.0 ** int(word.removeprefix("10^"))
    assert fraction <= 1 / parts * (1 + 1e-12)
