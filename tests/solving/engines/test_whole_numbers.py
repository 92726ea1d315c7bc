from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.core import compiled
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import Exponential
from ridgeformer.kernels.base import gamma
from ridgeformer.solving import solve
from ridgeformer.solving.engines import dots as dots_module
from ridgeformer.solving.engines import whole_numbers
from ridgeformer.solving.engines.dots import Dots
from ridgeformer.solving.engines.whole_numbers import LARGEST, LEAST, MOST, WholeNumbers, exact_products, find_multiples

pytest.importorskip("numba")
if not exact_products():
    pytest.skip("this processor has no exact products of 8-bit numbers", allow_module_level=True)


def pixels(n=40, d=LEAST, *, low=0, high=LARGEST, seed=0):
    return numpy_generator(seed, "pixels").integers(low, high + 1, (n, d))


def rows_of(numbers, dtype=torch.float64):
    """Numbers as people scale them: to [0, 1], then every row to unit length."""
    rows = numbers / 255
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return torch.from_numpy(rows / np.where(lengths > 0, lengths, 1)).to(dtype)


def products_of(found, n):
    out = np.full((n, n), np.nan, dtype=found.steps.numpy().dtype)
    found.fill(out, slice(0, n), slice(0, n))
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 255), (0, 1), (0, 2), (-1, 1), (-127, 127)],
    ids=["pixels", "bits", "genotypes", "signs", "signed"],
)
def test_rows_are_taken_apart_into_the_numbers_they_were_made_of(low, high, dtype):
    numbers = pixels(low=low, high=high)
    numbers[3], numbers[5] = 0, 2 * (numbers[5] // 2)  # a row of zeros, and one whose step may be twice as large
    rows = rows_of(numbers, dtype)
    found = WholeNumbers.of(rows)
    whole = found.codes.long() + found.shift
    divisors = np.gcd.reduce(numbers, axis=1)
    assert whole.tolist() == (numbers // np.where(divisors > 0, divisors, 1)[:, None]).tolist()
    torch.testing.assert_close(found.steps[:, None] * whole.to(dtype), rows, rtol=20 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e15])
@given(seed=st.integers(0, 2**31), d=st.integers(LEAST, 200), high=st.integers(1, LARGEST))
def test_products_are_as_right_as_bounds_on_entries_say(dtype, scale, seed, d, high):
    numbers = pixels(4, d, high=high, seed=seed)
    rows = (scale * rows_of(numbers)).to(dtype)
    found = products_of(WholeNumbers.of(rows), 4)
    exact = [[Fraction(float(x)) for x in row] for row in rows]
    for i in range(4):
        for j in range(4):
            true, size = (sum(f(a) * f(b) for a, b in zip(exact[i], exact[j], strict=True)) for f in (Fraction, abs))
            assert abs(Fraction(float(found[i, j])) - true) <= Fraction(gamma(d, dtype)) * size


@pytest.mark.parametrize(("fill", "other"), [(255, 255), (255, 0), (0, 255), (-127, -127), (-127, 127), (127, 127)])
def test_the_largest_sums_there_can_be_are_exact(fill, other):
    numbers = np.array([[fill] * MOST, [other] * MOST])
    numbers[:, :2] = [[1, fill], [1, other]]  # so that no larger step would do
    found = WholeNumbers.of(torch.from_numpy(numbers.astype(float)))
    np.testing.assert_array_equal(products_of(found, 2), numbers @ numbers.T)


def change(numbers, place, value):
    rows = torch.from_numpy(numbers.astype(float))
    rows[place] = value
    return rows


@pytest.mark.parametrize(
    "rows",
    [
        torch.from_numpy(numpy_generator(0, "any").standard_normal((40, LEAST))),
        change(pixels(), (39, 7), 256.0),
        change(pixels(), (39, 7), 1 / 3),
        change(pixels(), (20, 0), 17 * (1 + 2.0**-44)),
        change(pixels(), (20, 0), 1e-30),
        change(pixels(), (20, 0), -1.0),  # then 8 bits with a sign do not hold 255
        change(pixels(), (20, 0), float("nan")),
        change(pixels(), (20, 0), float("inf")),
        torch.from_numpy(pixels(d=LEAST - 1).astype(float)),
        torch.zeros(2, MOST + 1),
        torch.zeros(0, LEAST),
    ],
    ids=["random", "256", "a third", "nearly", "tiny", "negative", "nan", "inf", "few features", "many", "no rows"],
)
def test_other_rows_are_left_alone(rows):
    assert WholeNumbers.of(rows) is None


def test_where_processors_would_cut_sums_off_it_is_not_used(monkeypatch):
    rows = rows_of(pixels())
    assert WholeNumbers.of(rows) is not None
    monkeypatch.setattr(whole_numbers, "exact_products", lambda: False)
    assert WholeNumbers.of(rows) is None


def test_the_function_that_is_compiled_in_plain_python():
    rows = rows_of(pixels(5)).numpy()
    rows[2, 2] = 0.123
    codes, steps = np.empty(rows.shape, dtype="int8"), np.empty(5)
    find_multiples(rows, codes, steps, 128, LARGEST, 8 * 2.0**-52)
    assert np.isnan(steps).tolist() == [False, False, True, False, False]
    for i in (0, 1, 3, 4):
        np.testing.assert_array_equal(codes[i].astype(int) + 128, pixels(5)[i] // np.gcd.reduce(pixels(5)[i]))


def test_rows_that_take_much_memory_are_not_copied(monkeypatch):
    rows = rows_of(pixels())
    monkeypatch.setattr(dots_module, "worthwhile", lambda n: True)
    assert Dots(rows, 15).whole is not None
    monkeypatch.setattr(dots_module, "PACKED_BYTES", rows.nbytes - 1)
    assert Dots(rows, 15).whole is None


@pytest.mark.parametrize("algorithm", ["mixed_direct", "mixed_pcg"])
def test_a_fit_is_the_same_as_without(algorithm, monkeypatch):
    monkeypatch.setattr(compiled, "LARGE", 0)
    n = 700
    X, y = rows_of(pixels(n)), numpy_generator(1, "y").standard_normal(n)
    fits = []
    for exact in (True, False):
        monkeypatch.setattr(whole_numbers, "exact_products", lambda exact=exact: exact)
        fits.append(solve(Exponential(0.25), X, y, 0.1, algorithm=algorithm, tol=1e-8))
    assert all(fit.status.value == "converged" for fit in fits)
    torch.testing.assert_close(fits[0].alpha, fits[1].alpha, rtol=0, atol=1e-6 * float(fits[0].alpha.abs().max()))
