import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ridgeformer import AttentionKernelClassifierCV, AttentionKernelRidgeCV, errors
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge

GRID = [1e-2, 1.0]


COPIES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a row left out has its copies among the others, unlike a weight"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [AttentionKernelRidgeCV(), AttentionKernelClassifierCV()], expected_failed_checks=lambda estimator: COPIES
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_regression_equals_a_grid_search_by_leaving_one_out():
    X, y = (part[:16] for part in load_diabetes(return_X_y=True))
    search = GridSearchCV(
        AttentionKernelRidge(temperature=0.05), {"ridge": GRID}, cv=LeaveOneOut(), scoring="neg_mean_squared_error"
    ).fit(X, y)
    ours = AttentionKernelRidgeCV(temperature=0.05, ridges=GRID).fit(X, y)
    np.testing.assert_allclose(ours.loo_errors_, -search.cv_results_["mean_test_score"], rtol=1e-10)
    assert ours.ridge_ == search.best_params_["ridge"]
    np.testing.assert_allclose(ours.predict(X), search.predict(X), rtol=1e-10)
    assert 0 < ours.bound_ < 1e-6


def test_classification_equals_a_grid_search_by_leaving_one_out():
    X, y = (part[::9] for part in load_wine(return_X_y=True))
    X = StandardScaler().fit_transform(X)
    search = GridSearchCV(AttentionKernelClassifier(temperature=8.0), {"ridge": GRID}, cv=LeaveOneOut()).fit(X, y)
    ours = AttentionKernelClassifierCV(temperature=8.0, ridges=GRID).fit(X, y)
    np.testing.assert_allclose(ours.loo_errors_, 1 - search.cv_results_["mean_test_score"], rtol=1e-10)
    assert ours.loo_errors_[GRID.index(ours.ridge_)] == ours.loo_errors_.min()


def test_equal_ridges_are_told_apart_by_their_squared_error():
    X, y = np.array([[-1.0], [-0.9], [0.9], [1.0]]), [0, 0, 1, 1]
    model = AttentionKernelClassifierCV("dot_product", ridges=GRID).fit(X, y)
    assert not model.loo_errors_.any()
    assert model.ridge_ == GRID[int(model.path_.mean_squared.argmin())]


def test_a_ridge_whose_errors_float64_does_not_determine_is_not_chosen():
    """At ridge 1e-16 leave-one-out is off by half, which a smaller error than at 1e-2 must not hide."""
    X = np.linspace(-1, 1, 16)[:, None]
    with pytest.warns(ConvergenceWarning, match="errors of 1 of 2 ridges"):
        model = AttentionKernelRidgeCV(temperature=1.0, ridges=[1e-16, 1e-2]).fit(X, X[:, 0] ** 3)
    assert model.loo_errors_[0] < model.loo_errors_[1]
    assert model.ridge_ == 1e-2


def test_a_bad_grid():
    with pytest.raises(errors.InputError, match="ridge is 0"):
        AttentionKernelRidgeCV(ridges=[0.0]).fit([[0.0], [1.0]], [0.0, 1.0])


def test_the_temperature_is_chosen_too():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    found = AttentionKernelClassifierCV().fit(X, y)
    fixed = [AttentionKernelClassifierCV(temperature=13.0 * 2.0**-k).fit(X, y).loo_errors_.min() for k in range(5)]
    assert found.loo_errors_.min() == pytest.approx(min(fixed))
    assert found.temperature_ > 0


@pytest.mark.parametrize("scale", [1e-8, 1e6])
def test_the_default_grid_follows_the_scale_of_the_kernel(scale):
    """With rows of any size the choice is the same fraction of the kernel, and off the edge."""
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    plain = AttentionKernelRidgeCV("dot_product").fit(X, y)
    scaled = AttentionKernelRidgeCV("dot_product").fit(X * scale**0.5, y)
    assert not plain.on_edge_
    assert not scaled.on_edge_
    assert scaled.ridge_ / scale == pytest.approx(plain.ridge_)
    assert scaled.loo_errors_ == pytest.approx(plain.loo_errors_, rel=1e-4)


def test_the_default_grid_is_widened_while_its_choice_is_on_the_edge():
    """Targets with nothing to learn want more than a hundred times the diagonal."""
    X, y = np.eye(40) + 0.5, np.tile([1.0, -1.0], 20)
    model = AttentionKernelRidgeCV("dot_product", fit_intercept=False).fit(X, y)
    assert len(model.path_.ridges) == len(model.loo_errors_) > 20
    assert model.ridge_ > 100 * float((X**2).sum(1).mean())


def test_a_grid_of_your_own_is_searched_as_it_is():
    X, y = load_diabetes(return_X_y=True)
    model = AttentionKernelRidgeCV(ridges=[1e3, 1e4]).fit(X, y)
    assert model.on_edge_
    assert model.path_.ridges.tolist() == [1e3, 1e4]
    with pytest.raises(errors.UnknownNameError, match="ridges"):
        AttentionKernelRidgeCV(ridges="all").fit(X, y)


def test_widening_ends_where_float64_does():
    """Noise-free targets want no ridge at all; the search stops at what can be judged, and says so."""
    X = np.linspace(0.1, 1, 30)[:, None]
    model = AttentionKernelRidgeCV("dot_product", fit_intercept=False).fit(X, X[:, 0])
    assert model.on_edge_
    assert 1e-8 <= model.ridge_ / float((X**2).mean()) < 3e-8


@pytest.mark.parametrize("criterion", ["likelihood", "leave_one_out_likelihood"])
def test_a_likelihood_chooses_temperature_ridge_and_scale(criterion):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    y = 50 + 3 * np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    model = AttentionKernelRidgeCV("gaussian", criterion=criterion).fit(X, y)
    chosen = model.most_likely_
    assert (model.ridge_, model.temperature_) == (chosen.ridge, chosen.kernel.temperature)
    assert model.scale_ == chosen.scale
    assert 0.2 < (model.scale_ * model.ridge_) ** 0.5 < 0.45  # the noise that was put in: 0.3
    leave = criterion != "likelihood"
    reached = model.solution_.log_likelihood(scale=model.scale_, leave_one_out=leave)
    assert reached == pytest.approx(chosen.log_likelihood, rel=1e-9)
    _, std = model.predict(X, return_std=True)
    assert np.all(std > 0)
    fixed = AttentionKernelRidgeCV("gaussian", temperature=0.5, criterion=criterion, scale=2.0).fit(X, y)
    assert fixed.temperature_ == 0.5
    assert fixed.scale_ == 2.0
    assert fixed.most_likely_.log_likelihood < chosen.log_likelihood
    assert fixed.set_params(criterion="leave_one_out").fit(X, y).most_likely_ is None


def test_criteria_that_make_no_sense():
    X, y = (part[:30] for part in load_diabetes(return_X_y=True))
    with pytest.raises(errors.UnknownNameError, match="criterion"):
        AttentionKernelRidgeCV(criterion="evidence").fit(X, y)
    with pytest.raises(errors.InputError, match="searches no grid"):
        AttentionKernelRidgeCV(criterion="likelihood", ridges=[1.0]).fit(X, y)
