"""The Gaussian-process view: scikit-learn's posterior and likelihood, and variances that are proved."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import ridgeformer as rf
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator

TAU = 0.4


def rows(n, q, seed):
    generator = torch_generator(seed, "posterior rows")
    X = torch.rand(n + q, 2, generator=generator, dtype=torch.float64)
    return X[:n], torch.sin(5 * X[:n, 0]) + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64), X[n:]


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 1.0])
def test_mean_deviation_covariance_and_likelihood_are_scikit_learns(ridge):
    X, y, Xq = rows(60, 15, 0)
    fit = rf.solve(rf.Gaussian(temperature=TAU), X, y, ridge)
    theirs = GaussianProcessRegressor(RBF(TAU**0.5), alpha=ridge, optimizer=None).fit(X.numpy(), y.numpy())
    mean, std = theirs.predict(Xq.numpy(), return_std=True)
    _, cov = theirs.predict(Xq.numpy(), return_cov=True)
    posterior = fit.posterior(Xq, covariance=True)
    np.testing.assert_allclose(posterior.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.std, std, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance, cov, rtol=0, atol=1e-8)
    assert fit.log_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)


@pytest.mark.parametrize("ridge", [1e-12, 1e-9, 1e-4, 1.0])
@pytest.mark.parametrize("kernel", [rf.Gaussian(temperature=TAU), rf.Exponential(temperature=0.5), rf.DotProduct()])
def test_the_proved_interval_holds_the_exact_variance(kernel, ridge):
    """The oracle is 200-bit arithmetic on the very same rows."""
    from flint import arb, arb_mat, ctx

    X, y, Xq = rows(12, 5, 1)
    Xq = torch.cat([Xq, X[:2]])  # at training rows the variance is about the ridge
    posterior = rf.solve(kernel, X, y, ridge, algorithm="direct").posterior(Xq)
    assert bool((posterior.low > 0).all())
    assert bool((posterior.low <= posterior.variance).all() and (posterior.variance <= posterior.high).all())
    ctx.prec, before = 400, ctx.prec

    def entry(x, z):
        dot = sum((arb(a) * arb(b) for a, b in zip(x.tolist(), z.tolist(), strict=True)), arb(0))
        if isinstance(kernel, rf.DotProduct):
            return dot
        if isinstance(kernel, rf.Gaussian):
            square = sum(((arb(a) - arb(b)) ** 2 for a, b in zip(x.tolist(), z.tolist(), strict=True)), arb(0))
            return (-square / (2 * arb(kernel.temperature))).exp()
        return (dot / arb(kernel.temperature)).exp()

    A = arb_mat([[entry(a, b) + (arb(ridge) if i == j else 0) for j, b in enumerate(X)] for i, a in enumerate(X)])
    for j, query in enumerate(Xq):
        k = arb_mat([[entry(a, query)] for a in X])
        exact = entry(query, query) - (k.transpose() * A.solve(k))[0, 0]
        assert arb(float(posterior.low[j])) <= exact
        assert arb(float(posterior.high[j])) >= exact
    ctx.prec = before


def test_iterative_fits_give_the_same_variance():
    X, y, Xq = rows(80, 6, 2)
    one, other = (
        rf.solve(rf.Gaussian(temperature=TAU), X, y, 0.01, algorithm=a).posterior(Xq) for a in ("direct", "cg")
    )
    torch.testing.assert_close(one.variance, other.variance, rtol=1e-9, atol=1e-12)


def test_the_most_likely_scale_maximises_the_likelihood():
    X, y, _ = rows(50, 1, 3)
    fit = rf.solve(rf.Gaussian(temperature=TAU), X, 3 * y, 0.01)
    best = fit.most_likely_scale
    assert fit.log_likelihood(scale=best) > max(fit.log_likelihood(scale=best * f) for f in (0.9, 1.1))


def test_leave_one_out_likelihood_is_that_of_n_refits():
    X, y, _ = rows(25, 1, 4)
    kernel = rf.Gaussian(temperature=TAU)
    total = 0.0
    for i in range(25):
        rest = [j for j in range(25) if j != i]
        gp = GaussianProcessRegressor(RBF(TAU**0.5), alpha=0.05, optimizer=None).fit(X[rest].numpy(), y[rest].numpy())
        mean, std = gp.predict(X[i : i + 1].numpy(), return_std=True)
        variance = float(std[0]) ** 2 + 0.05
        total += -0.5 * ((float(y[i]) - float(mean[0])) ** 2 / variance + np.log(2 * np.pi * variance))
    assert rf.solve(kernel, X, y, 0.05).log_likelihood(leave_one_out=True) == pytest.approx(total, abs=1e-8)


def test_draws_have_the_mean_and_covariance_of_the_posterior():
    X, y, Xq = rows(30, 4, 5)
    posterior = rf.solve(rf.Gaussian(temperature=TAU), X, y, 0.1).posterior(Xq, covariance=True)
    draws = posterior.sample(40_000, seed=1)
    assert draws.shape == (40_000, 4)
    torch.testing.assert_close(draws.mean(0), posterior.mean, rtol=0, atol=5 * float(posterior.std.max()) / 200)
    torch.testing.assert_close(
        torch.cov(draws.T), posterior.covariance, rtol=0, atol=0.05 * float(posterior.variance.max())
    )


def test_float32_rows_are_refused():
    X, y, Xq = rows(30, 4, 5)
    with pytest.raises(InputError, match="float64 only"):
        rf.solve(rf.Gaussian(temperature=TAU), X.float(), y, 0.1).posterior(Xq)


@pytest.mark.parametrize("ridge", [1e-3, 1e-1])
def test_mean_deviation_and_likelihood_are_gpytorchs(ridge):
    gpytorch = pytest.importorskip("gpytorch")
    X, y, Xq = rows(60, 15, 6)

    class Process(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood):
            super().__init__(X, y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.covariance = gpytorch.kernels.RBFKernel().double()
            self.covariance.lengthscale = torch.tensor(TAU**0.5, dtype=torch.float64)  # else rounded to float32

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(self.mean(X), self.covariance(X))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = torch.tensor(ridge, dtype=torch.float64)
    model = Process(X, y, likelihood)
    total = len(X) * gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(X), y)
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        theirs = model(Xq)
        mean, std = theirs.mean, theirs.variance.sqrt()
    fit = rf.solve(rf.Gaussian(temperature=TAU), X, y, ridge)
    posterior = fit.posterior(Xq)
    torch.testing.assert_close(posterior.mean, mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(posterior.std, std, rtol=0, atol=1e-8)
    assert fit.log_likelihood() == pytest.approx(float(total.detach()), rel=1e-8)
