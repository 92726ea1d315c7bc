"""Intervals and posteriors without a factor: estimates with error bars that hold, and variances that are proved."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving import uncertainty

KERNEL = rf.Gaussian(temperature=0.1)


def task(n, q, seed):
    generator = torch_generator(seed, "at scale")
    X = 2 * torch.rand(n + q, 3, generator=generator, dtype=torch.float64) - 1
    y = torch.sin(3 * X[:, 0]) + 0.3 * torch.randn(n + q, generator=generator, dtype=torch.float64)
    return X[:n], y[:n], X[n:]


@pytest.fixture
def no_room(monkeypatch):
    """Nothing of n x n fits into memory."""

    def refuse(n, dtype):
        raise InputError("no room")

    monkeypatch.setattr(uncertainty, "check_memory", refuse)


def test_error_bars_hold_the_exact_ends():
    """150 ends over independent draws of data and probes, at a sketch (rank 2 sqrt(n)) that leaves much to chance."""
    inside, moved, relative = [], [], []
    for seed in range(5):
        X, y, Xq = task(160, 15, seed)
        fit = rf.solve(KERNEL, X, y, 0.5, algorithm="direct")
        exact, found = fit.interval(Xq), fit.interval(Xq, probes=64, seed=seed)
        assert exact.error is None
        for end in ("low", "high"):
            gap = (getattr(found, end) - getattr(exact, end)).abs()
            inside += (gap <= found.error).tolist()
            moved.append(float(gap.max()))
        relative.append(float((found.error / exact.width).max()))
    assert sum(inside) >= 0.95 * len(inside)
    assert max(moved) > 1e-4  # a test that could fail: they are estimates
    assert sum(relative) / 5 < 0.3  # and bars that say something


def test_the_answer_says_that_it_is_an_estimate(no_room):
    X, y, Xq = task(120, 4, 9)
    fit = rf.solve(KERNEL, X, y, 0.05, algorithm="cg")
    interval = fit.interval(Xq)
    assert interval.error.shape == (4,)
    assert "estimated from 64 random probes" in str(interval)
    exact = rf.solve(KERNEL, X, y, 0.05, algorithm="direct").interval(Xq)
    assert bool(((interval.low - exact.low).abs() <= interval.error).all())


def test_centred_targets_and_several_outputs_are_estimated_alike(no_room):
    X, y, Xq = task(120, 4, 3)
    both = torch.stack([y, y.square()], 1)
    both = both - both.mean(0)
    fit, exact = (rf.solve(KERNEL, X, both, 0.05, algorithm=a) for a in ("cg", "direct"))
    found = uncertainty.fit_interval(fit, Xq, centred=True)
    truth = uncertainty.fit_interval(exact, Xq, centred=True)
    assert found.low.shape == found.error.shape == (4, 2)
    assert bool(((found.low - truth.low).abs() <= found.error).all())
    assert bool(((found.high - truth.high).abs() <= found.error).all())


def test_methods_that_need_the_factor_are_refused_and_the_others_work(no_room):
    X, y, Xq = task(120, 4, 9)
    fit = rf.solve(KERNEL, X[:80], y[:80], 0.05, algorithm="cg")
    for method in ("cv+", "full"):
        with pytest.raises(InputError, match="needs a Cholesky factor of all 80 rows"):
            fit.interval(Xq, method=method)
    for method in ("split", "normalised"):
        assert bool((fit.interval(Xq, 0.8, method, calibration=(X[80:], y[80:])).width > 0).all())
    with pytest.raises(InputError, match="probes is 1"):
        fit.interval(Xq, probes=1)


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 1.0])
def test_variances_by_conjugate_gradients_are_proved(ridge, no_room):
    X, y, Xq = task(120, 8, 4)
    Xq = torch.cat([Xq, X[:2]])
    found = rf.solve(KERNEL, X, y, ridge, algorithm="cg").posterior(Xq, covariance=True)
    exact = rf.solve(KERNEL, X, y, ridge, algorithm="direct").posterior(Xq, covariance=True)
    assert bool((found.low > 0).all())
    assert bool((found.low <= exact.high).all() and (exact.low <= found.high).all())  # both hold the exact one
    torch.testing.assert_close(found.variance, exact.variance, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found.covariance, exact.covariance, rtol=0, atol=1e-7)
