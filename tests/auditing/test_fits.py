from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import Ridge

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.fits import certified_fit, constant, linear_ridge, nadaraya_watson
from ridgeformer.core.errors import LogitRangeError
from ridgeformer.core.statistics import mean_interval, proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.kernels import Exponential


@pytest.fixture(scope="module")
def diabetes():
    return Split.of(datasets.load("diabetes"))


def test_the_bound_covers_the_distance_to_an_independent_solution(diabetes):
    certified = certified_fit(diabetes, Settings())
    kernel = certified.fit.kernel
    A = kernel(diabetes.X) + certified.fit.ridge * torch.eye(len(diabetes.X), dtype=torch.float64)
    values, Q = torch.linalg.eigh(A)
    exact = kernel(diabetes.Xt, diabetes.X) @ (Q @ ((Q.T @ diabetes.y) / values[:, None]))
    assert float((certified.fit.predict(diabetes.Xt) - exact).abs().max()) <= certified.worst_bound
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


def test_scores_are_means_over_rows_and_differences_are_paired(diabetes):
    linear, smoother = linear_ridge(diabetes, Settings()), nadaraya_watson(diabetes, Settings())
    for fit in (linear, smoother):
        assert fit.test_score == pytest.approx(fit.row_scores.mean())
        assert fit.interval == mean_interval(fit.row_scores)
    found = linear.compare(smoother)
    assert found.lead == pytest.approx(linear.test_score - smoother.test_score)
    assert found.high - found.low < sum(fit.interval[1] - fit.interval[0] for fit in (linear, smoother))
    assert (linear.compare(linear).lead, linear.compare(linear).p) == (0.0, 1.0)


def test_the_interval_of_an_accuracy_is_exact():
    wine = Split.of(datasets.load("wine"))
    fit = nadaraya_watson(wine, Settings())
    assert fit.interval == proportion_interval(int(fit.row_scores.sum()), len(fit.row_scores))


def test_no_method_loses_because_its_grid_is_too_short():
    """Nadaraya-Watson scored 96.5 % on digits with a grid that ended at 1/16, where its choice sat on the edge."""
    digits = Split.of(datasets.load("digits"))
    short, enough = (
        Settings(temperatures=(1.0, 0.5, 0.25, 0.125, 0.0625)),
        Settings(temperatures=(0.0156, 0.0078, 0.0039)),
    )
    found, best = nadaraya_watson(digits, short), nadaraya_watson(digits, enough)
    assert found.temperature == pytest.approx(1 / 128)
    assert found.test_score == pytest.approx(best.test_score, abs=0.004)
    assert not found.on_edge


@pytest.mark.parametrize("method", [lambda d, s: certified_fit(d, s).scored, linear_ridge, nadaraya_watson])
def test_every_method_leaves_the_edge_of_a_short_grid(diabetes, method):
    short = Settings(temperatures=(64.0, 32.0, 16.0, 8.0), ridges=(1e-8, 1e-7, 1e-6, 1e-5))
    found, wide = method(diabetes, short), method(diabetes, Settings())
    assert not found.on_edge
    assert found.test_score == pytest.approx(wide.test_score, abs=0.02)


def test_temperatures_out_of_range_are_left_out(diabetes):
    """Rows of very different lengths: only warm kernels hold them side by side."""
    stretch = torch.linspace(0.1, 30.0, len(diabetes.X), dtype=torch.float64)[:, None]
    long = replace(diabetes, X=diabetes.X * stretch)
    assert certified_fit(long, Settings()).scored.temperature is not None
    with pytest.raises(LogitRangeError):
        certified_fit(long, Settings(temperatures=(1e-6,)))
