import pytest
import torch

from ridgeformer import errors
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.solving import fit as fits
from ridgeformer.solving import solve
from tests.solving.solver_case import problem


@pytest.mark.parametrize("algorithm", ["direct", "cg", "mixed_pcg"])
@pytest.mark.parametrize("kernel", [Exponential(1.0), Gaussian(1.0)], ids=lambda kernel: kernel.name)
class TestWhatIsKept:
    ridge = 0.3

    def fit(self, kernel, algorithm):
        X, y = problem(n=30)
        return solve(kernel, X, y, self.ridge, algorithm=algorithm, tol=1e-12), X, y

    def test_the_factor_and_the_inverse_are_those_of_the_system(self, kernel, algorithm):
        fit, X, y = self.fit(kernel, algorithm)
        A = kernel(X) + self.ridge * torch.eye(30, dtype=torch.float64)
        torch.testing.assert_close(fit.factor @ fit.factor.T, A)
        torch.testing.assert_close(fit.inverse @ y, torch.linalg.solve(A, y))
        torch.testing.assert_close(fit.inverse @ y[:, 0], torch.linalg.solve(A, y[:, 0]))
        torch.testing.assert_close(fit.eigenvalues, torch.linalg.eigvalsh(fit.K).flip(0))

    def test_leave_one_out_residuals_and_leverage_equal_refits(self, kernel, algorithm):
        fit, X, y = self.fit(kernel, algorithm)
        hat = fit.K @ torch.linalg.inv(fit.K + self.ridge * torch.eye(30, dtype=torch.float64))
        torch.testing.assert_close(fit.leverage, hat.diagonal())
        for i in (0, 7, 29):
            rest = torch.arange(30) != i
            refit = solve(kernel, X[rest], y[rest], self.ridge, algorithm="direct")
            torch.testing.assert_close(
                fit.leave_one_out[i], y[i] - refit.predict(X[i : i + 1])[0], rtol=1e-7, atol=1e-9
            )


def test_what_is_expensive_is_computed_once(monkeypatch):
    X, y = problem()
    count = []
    original = fits.factorise_in_place
    monkeypatch.setattr(fits, "factorise_in_place", lambda *given: count.append(1) or original(*given))
    fit = solve(Exponential(1.0), X, y[:, 0], 0.1, algorithm="cg")
    assert not count  # nothing that was not asked for
    assert fit.leave_one_out.shape == (40,)
    assert fit.inverse @ y is not None
    assert fit.leverage.shape == (40,)
    assert count == [1]


def test_a_singular_system_has_no_factor_and_says_why():
    fit = solve(DotProduct(), torch.ones(30, 2, dtype=torch.float64), torch.arange(30.0), 1e-18)
    with pytest.raises(errors.InputError, match=r"singular in torch.float64: the ridge 1e-18 is below the round-off"):
        _ = fit.factor
