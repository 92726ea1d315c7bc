import pytest
import torch

from ridgeformer.compiler.execution import run_literally
from ridgeformer.compiler.primitives.ranges import operand_ranges, refuse_overflow
from ridgeformer.core.errors import InputError

from .problems import build, problem


def test_the_ranges_are_those_of_a_textbook_run():
    X, y, Xq = problem(k=10)
    A = X @ X.T + 0.5 * torch.eye(10, dtype=torch.float64)
    r = p = y
    divisors, factors = [], []
    for _ in range(3):
        rho, s = r @ r, p @ A @ p
        r_new = r - rho / s * (A @ p)
        divisors += [float(rho), float(s)]
        factors += [float(rho), float(r_new.abs().max())]
        p, r = r_new + (r_new @ r_new) / rho * p, r_new
    met = operand_ranges(build("linear", steps=3), X, y, Xq)
    assert met.smallest_divisor == pytest.approx(min(divisors))
    assert met.largest_divisor == pytest.approx(max(divisors))
    assert met.largest_factor >= max(factors) * (1 - 1e-12)


def test_they_are_the_same_for_all_primitives_and_cover_batches():
    tasks = [problem(seed) for seed in (0, 1)]
    X, y, Xq = (torch.stack(parts) for parts in zip(*tasks, strict=True))
    both = operand_ranges(build(primitives="swiglu"), X, y[..., None], Xq)
    each = [operand_ranges(build(primitives="relu"), *task) for task in tasks]
    assert both.smallest_divisor == pytest.approx(min(one.smallest_divisor for one in each))
    assert both.largest_divisor == pytest.approx(max(one.largest_divisor for one in each))
    assert both.largest_factor == pytest.approx(max(one.largest_factor for one in each))


def test_within_says_whether_the_figures_hold():
    met = operand_ranges(build(), *problem())
    low, high, factor = met.smallest_divisor / 2, 2 * met.largest_divisor, 2 * met.largest_factor
    assert met.within(build().spec)
    assert met.within(build(primitives="swiglu", reciprocal_range=(low, high)).spec)
    assert not met.within(build(primitives="swiglu", reciprocal_range=(low, high / 4)).spec)
    assert not met.within(build(primitives="swiglu", reciprocal_range=(4 * low, high)).spec)
    assert met.within(build(primitives="relu", reciprocal_range=(low, high), relu_bound=factor).spec)
    assert not met.within(build(primitives="relu", reciprocal_range=(low, high), relu_bound=factor / 4).spec)


def test_nothing_divided_is_within_anything():
    met = operand_ranges(build("vanilla"), *problem())
    assert (met.smallest_divisor, met.largest_divisor, met.largest_factor) == (float("inf"), 0.0, 0.0)


def test_a_divisor_beyond_the_range_is_refused_and_not_returned_as_nan():
    X, y, Xq = problem()
    for limit, fits in ((1.0, False), (1e4, True)):
        model = build("linear", "swiglu", reciprocal_range=(1e-6, limit))
        run = run_literally(model, model.stream(X, y[:, None], Xq), model.tokens(len(X), len(Xq)))
        if fits:
            assert len(list(refuse_overflow(run, model.spec))) > 5
        else:
            with pytest.raises(InputError, match=r"a divisor above 1 made the Newton sweeps diverge: compile with a"):
                list(refuse_overflow(run, model.spec))
