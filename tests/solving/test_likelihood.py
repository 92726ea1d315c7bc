"""Likelihoods: their gradients are those of finite differences, and the maximum is one."""

from dataclasses import replace
from math import exp

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import ridgeformer as rf
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels.weighted import Weighted
from ridgeformer.solving import likelihood_gradient, maximise_likelihood


def task(n=30, outputs=2, seed=0, noise=0.1):
    generator = torch_generator(seed, "likelihood")
    X = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(4 * X[:, :1]) + noise * torch.randn(n, outputs, generator=generator, dtype=torch.float64)
    return X, y - y.mean(0)


def warmed(kernel, factor):
    inner = kernel.inner if isinstance(kernel, Weighted) else kernel
    inner = replace(inner, temperature=inner.temperature * factor)
    return Weighted(inner) if isinstance(kernel, Weighted) else inner


KERNELS = {
    "gaussian": rf.Gaussian(0.4),
    "exponential": rf.Exponential(0.5),
    "scaled": rf.Exponential(0.5, log_scale=3.0),
    "large logits": rf.Exponential(0.006),  # K is rescaled to stay in range
    "weighted": Weighted(rf.Gaussian(0.4)),
}


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("scale", [None, 2.0])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_central_differences(name, scale, leave_one_out):
    (X, y), kernel = task(), KERNELS[name]
    ridge = 0.03 * float(kernel.within_range(X).diagonal(X).mean()) * exp(kernel.within_range(X).log_scale)
    ridge *= exp(-kernel.log_scale)
    if name == "large logits":
        scale = scale and scale / ridge

    def value(tau=0.0, noise=0.0, size=0.0):
        given = scale and scale * exp(size)
        found = likelihood_gradient(
            warmed(kernel, exp(tau)), X, y, ridge * exp(noise), scale=given, leave_one_out=leave_one_out
        )
        return found.value

    found, h = likelihood_gradient(kernel, X, y, ridge, scale=scale, leave_one_out=leave_one_out), 1e-5
    assert found.temperature == pytest.approx((value(tau=h) - value(tau=-h)) / (2 * h), rel=1e-5, abs=1e-5)
    assert found.ridge == pytest.approx((value(noise=h) - value(noise=-h)) / (2 * h), rel=1e-5, abs=1e-5)
    if scale is not None:
        assert found.scale == pytest.approx((value(size=h) - value(size=-h)) / (2 * h), rel=1e-5, abs=1e-5)
    else:
        assert found.scale == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_value_is_that_of_a_fit(leave_one_out):
    X, y = task()
    fit = rf.solve(rf.Gaussian(0.4), X, y, 0.03, algorithm="direct")
    found = likelihood_gradient(rf.Gaussian(0.4), X, y, 0.03, scale=1.7, leave_one_out=leave_one_out)
    assert found.value == pytest.approx(fit.log_likelihood(scale=1.7, leave_one_out=leave_one_out), rel=1e-12)
    free = likelihood_gradient(rf.Gaussian(0.4), X, y, 0.03, leave_one_out=leave_one_out)
    if not leave_one_out:
        assert free.at_scale == pytest.approx(fit.most_likely_scale, rel=1e-12)
    beside = [likelihood_gradient(rf.Gaussian(0.4), X, y, 0.03, scale=free.at_scale * f, leave_one_out=leave_one_out)
              for f in (0.9, 1.1)]  # fmt: skip
    assert free.value > max(one.value for one in beside)


@pytest.mark.parametrize("kernel", [rf.Gaussian(1.0), rf.Exponential(1.0), rf.DotProduct()])
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_maximum_is_stationary_and_above_its_neighbours(kernel, leave_one_out):
    X, y = task()
    found = maximise_likelihood(kernel, X, y, leave_one_out=leave_one_out)
    assert not found.on_edge
    assert abs(found.gradient.ridge) < 1e-3
    if not isinstance(kernel, rf.DotProduct):
        assert abs(found.gradient.temperature) < 1e-3
    for factor in (0.8, 1.25):
        other = likelihood_gradient(found.kernel, X, y, found.ridge * factor, leave_one_out=leave_one_out)
        assert other.value < found.log_likelihood
    assert f"ridge {found.ridge:.4g}" in str(found)


def test_scikit_learn_finds_the_same_maximum():
    X, y = task(40, 1)
    prior = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(prior, alpha=0.0, n_restarts_optimizer=2, random_state=0).fit(X, y[:, 0])
    found = maximise_likelihood(rf.Gaussian(1.0), X, y)
    assert found.log_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-3)
    assert found.kernel.temperature**0.5 == pytest.approx(theirs.kernel_.k1.k2.length_scale, rel=0.02)
    assert found.scale * found.ridge == pytest.approx(theirs.kernel_.k2.noise_level, rel=0.02)


def test_what_is_held_stays():
    X, y = task()
    found = maximise_likelihood(rf.Gaussian(0.3), X, y, ridge=0.5, scale=2.0)
    assert (found.ridge, found.scale) == (0.5, pytest.approx(2.0))
    assert found.kernel.temperature != 0.3
    found = maximise_likelihood(rf.Gaussian(0.3), X, y, ridge=0.5, fixed_temperature=True)
    assert (found.ridge, found.kernel.temperature, found.evaluations) == (0.5, 0.3, 1)


def test_bad_input():
    X, y = task()
    with pytest.raises(InputError, match="all zero"):
        maximise_likelihood(rf.Gaussian(0.3), X, 0 * y)
    with pytest.raises(InputError, match="ridge is -1"):
        likelihood_gradient(rf.Gaussian(0.3), X, y, -1.0)
    with pytest.raises(InputError, match="scale is 0"):
        likelihood_gradient(rf.Gaussian(0.3), X, y, 1.0, scale=0.0)
    with pytest.raises(InputError, match="singular in float64"):
        likelihood_gradient(rf.DotProduct(), X, y, 1e-18)
    with pytest.raises(InputError, match="NaN"):
        likelihood_gradient(rf.Gaussian(0.3), X * float("nan"), y, 1.0)
