import pytest
import torch
from sklearn.linear_model import Ridge

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.fits import _largest_good_ridge, certified_fit, constant, linear_ridge, nadaraya_watson
from ridgeformer.auditing.prepare import prepare
from ridgeformer.kernels import Exponential


@pytest.fixture(scope="module")
def diabetes():
    return prepare(datasets.load("diabetes"), Settings())


def test_the_bound_covers_the_distance_to_an_independent_solution(diabetes):
    certified = certified_fit(diabetes, Settings())
    kernel = certified.solution.kernel
    A = kernel(diabetes.X) + certified.solution.ridge * torch.eye(len(diabetes.X), dtype=torch.float64)
    values, Q = torch.linalg.eigh(A)
    exact = kernel(diabetes.Xt, diabetes.X) @ (Q @ ((Q.T @ diabetes.y) / values[:, None]))
    assert float((certified.solution.predict(diabetes.Xt) - exact).abs().max()) <= certified.worst_bound
    assert isinstance(kernel, Exponential)
    assert certified.safe_decisions is None


def test_linear_ridge_is_scikit_learns(diabetes):
    fit = linear_ridge(diabetes, Settings())
    model = Ridge(alpha=fit.ridge, fit_intercept=False).fit(diabetes.X.numpy(), diabetes.y.numpy())
    outputs = torch.from_numpy(model.predict(diabetes.Xt.numpy())).reshape(-1, 1)
    assert fit.test_score == pytest.approx(diabetes.score(outputs), abs=1e-6)


def test_baselines_beat_the_constant(diabetes):
    floor = constant(diabetes).test_score
    assert floor == pytest.approx(0.0, abs=0.05)
    assert nadaraya_watson(diabetes, Settings()).test_score > floor
    assert linear_ridge(diabetes, Settings()).test_score > floor


def test_decisions_are_counted_safe_only_while_the_bound_is_below_the_margin():
    from ridgeformer.auditing.fits import _safe_decisions

    outputs = torch.tensor([[1.0, 0.0], [0.5, 0.4]])
    assert _safe_decisions(outputs, torch.full((2, 2), 0.01)) == 1.0
    assert _safe_decisions(outputs, torch.full((2, 2), 0.06)) == 0.5
    assert _safe_decisions(outputs, torch.full((2, 2), 0.6)) == 0.0


def test_the_largest_ridge_within_one_standard_error():
    residuals = torch.ones(4, 100, 1, dtype=torch.float64)
    residuals[:, ::2] = 2.0  # the squares have standard error 0.15
    scale = torch.tensor([1.1, 1.0, 1.02, 1.5], dtype=torch.float64)
    error, index = _largest_good_ridge(residuals * scale[:, None, None])
    assert error == pytest.approx(2.5)
    assert index == 2


def test_scores_are_means_over_rows_and_differences_are_paired(diabetes):
    linear, smoother = linear_ridge(diabetes, Settings()), nadaraya_watson(diabetes, Settings())
    for fit in (linear, smoother):
        assert fit.test_score == pytest.approx(fit.row_scores.mean())
        assert fit.margin == pytest.approx(1.96 * fit.row_scores.std() / len(fit.row_scores) ** 0.5)
    lead, margin = linear.lead(smoother)
    assert lead == pytest.approx(linear.test_score - smoother.test_score)
    assert 0 < margin < linear.margin + smoother.margin
    assert linear.lead(linear) == (0.0, 0.0)
