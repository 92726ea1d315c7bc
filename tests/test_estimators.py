import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ridgeformer import errors
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge, NadarayaWatsonRegressor
from ridgeformer.kernels import Exponential
from ridgeformer.solving.uncertainty import fit_interval

DIABETES = load_diabetes(return_X_y=True)


@parametrize_with_checks(
    [
        AttentionKernelRidge(),
        AttentionKernelRidge("relu_ntk", algorithm="cg"),
        AttentionKernelRidge("dot_product", algorithm="pcg"),
        AttentionKernelClassifier(),
        NadarayaWatsonRegressor(),
    ]
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_equals_kernel_ridge():
    X, y = DIABETES
    ours = AttentionKernelRidge(temperature=0.05, ridge=0.1, fit_intercept=False).fit(X, y)
    K = Exponential(0.05)(X).numpy()
    theirs = KernelRidge(alpha=0.1, kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(K), rtol=1e-9)


def test_several_targets_at_once():
    X, y = DIABETES
    both = AttentionKernelRidge().fit(X, np.stack([y, -y], axis=1))
    np.testing.assert_allclose(both.predict(X)[:, 1], -AttentionKernelRidge().fit(X, y).predict(X), rtol=1e-9)


def test_classifies_digits_in_a_pipeline():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(Normalizer(), AttentionKernelClassifier(temperature=0.1, ridge=0.1))
    assert cross_val_score(model, X, y.astype(str), cv=3).min() > 0.94


def test_grid_search_over_its_parameters():
    X, y = DIABETES
    grid = {"attentionkernelridge__ridge": [1e-2, 1.0], "attentionkernelridge__kernel": ["exponential", "dot_product"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), AttentionKernelRidge()), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.4


@pytest.mark.parametrize("algorithm", ["direct", "cg", "pcg", "chebyshev"])
def test_the_bound_holds_at_every_row(algorithm):
    X, y = DIABETES
    model = AttentionKernelRidge(ridge=0.1, algorithm=algorithm, tol=1e-5).fit(X[:200], y[:200])
    exact = AttentionKernelRidge(ridge=0.1).fit(X[:200], y[:200])
    assert np.abs(model.predict(X[:200]) - exact.predict(X[:200])).max() <= model.bound_ + exact.bound_
    assert 0 < model.bound_ < np.inf


def test_a_kernel_object_and_its_clone():
    X, y = DIABETES
    model = AttentionKernelRidge(Exponential(0.02), ridge=0.1)
    assert clone(model).fit(X, y).score(X, y) == model.fit(X, y).score(X, y)


def test_float32_stays_float32():
    X, y = DIABETES
    model = AttentionKernelRidge().fit(X.astype(np.float32), y)
    assert model.predict(X.astype(np.float32)).dtype == np.float32


def test_not_converging_is_a_warning_with_advice():
    X, y = DIABETES
    with pytest.warns(ConvergenceWarning, match="raise steps"):
        AttentionKernelRidge(ridge=1e-6, algorithm=ConjugateGradients(steps=3)).fit(X, y)


def test_fitted_models_survive_copying():
    X, y = DIABETES
    model = AttentionKernelRidge().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_one_class_is_refused():
    with pytest.raises(errors.InputError, match="only one class"):
        AttentionKernelClassifier().fit([[0.0], [1.0]], [1, 1])


@pytest.mark.parametrize("model", [AttentionKernelRidge(temperature=-1.0), NadarayaWatsonRegressor(temperature=0.0)])
def test_bad_temperature(model):
    with pytest.raises(errors.InputError, match="temperature"):
        model.fit([[0.0], [1.0]], [0.0, 1.0])


def test_unknown_kernel():
    with pytest.raises(errors.UnknownNameError, match="did you mean 'exponential'"):
        AttentionKernelRidge("exponentia").fit([[0.0], [1.0]], [0.0, 1.0])


def test_nadaraya_watson_is_one_attention_head():
    X, y = (torch.from_numpy(a) for a in DIABETES)
    attention = torch.nn.functional.scaled_dot_product_attention(X[:9], X, y[:, None], scale=1 / 0.01)
    ours = NadarayaWatsonRegressor(temperature=0.01).fit(*DIABETES).predict(DIABETES[0][:9])
    np.testing.assert_allclose(ours, attention[:, 0].numpy(), rtol=1e-12)


def test_nadaraya_watson_is_the_limit_of_large_ridge():
    """Claim A4: ridge f_ridge(x) / Z_x -> f_NW(x)."""
    X, y = DIABETES
    Z = Exponential(0.05)(X).sum(1).numpy()
    limit = 1e9 * AttentionKernelRidge(temperature=0.05, ridge=1e9, fit_intercept=False).fit(X, y).predict(X) / Z
    np.testing.assert_allclose(limit, NadarayaWatsonRegressor(temperature=0.05).fit(X, y).predict(X), rtol=1e-5)


def test_nadaraya_watson_takes_logits_of_any_size():
    model = NadarayaWatsonRegressor(temperature=1e-3).fit([[0.0, 5.0], [5.0, 0.0]], [1.0, 2.0])
    np.testing.assert_allclose(model.predict([[0.0, 9.0], [9.0, 0.0]]), [1.0, 2.0])


def test_the_intercept_follows_the_targets():
    X, y = DIABETES
    plain, moved = (AttentionKernelRidge().fit(X, y + shift).predict(X) for shift in (0.0, 1e6))
    np.testing.assert_allclose(moved - 1e6, plain, atol=1e-6)


@pytest.mark.parametrize("kernel", ["exponential", "dot_product"])
def test_a_weight_counts_rows(kernel):
    X, y = (part[:40] for part in DIABETES)
    weight = np.arange(40) % 3
    weighted = AttentionKernelRidge(kernel).fit(X, y, weight)
    repeated = AttentionKernelRidge(kernel).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8)
    assert weighted.bound_ < 1e-6


def test_probabilities_and_priors():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    model = AttentionKernelClassifier(ridge=0.1).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (model.classes_[p.argmax(1)] == model.predict(X)).all()
    rare = np.concatenate([np.flatnonzero(y == 3)[:6], np.flatnonzero(y != 3)])
    before, after = (
        AttentionKernelClassifier(ridge=10.0, priors=priors).fit(X[rare], y[rare] == 3).predict(X[y == 3]).mean()
        for priors in (None, "uniform")
    )
    assert after > before
    with pytest.raises(errors.InputError, match="10 positive numbers"):
        AttentionKernelClassifier(priors=[1.0]).fit(X, y).predict(X)
    with pytest.raises(errors.UnknownNameError, match="priors"):
        AttentionKernelClassifier(priors="flat").fit(X, y).predict(X)


def test_class_weights_are_sample_weights():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200] == 3
    one = AttentionKernelClassifier(class_weight={False: 1, True: 9}).fit(X / 16, y)
    other = AttentionKernelClassifier().fit(X / 16, y, sample_weight=np.where(y, 9, 1))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


# -- uncertainty -------------------------------------------------------------------------------------


def wave(n=60, q=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + q, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=n + q)
    return X[:n], y[:n], X[n:]


@pytest.mark.parametrize("outputs", [0, 2])
def test_deviation_and_covariance_are_those_of_scikit_learns_process(outputs):
    X, y, Xq = wave()
    y = np.stack([y, y**2], 1) if outputs else y
    ours = AttentionKernelRidge("gaussian", temperature=0.4, ridge=0.01, scale=1.0, fit_intercept=False).fit(X, y)
    theirs = GaussianProcessRegressor(RBF(0.4**0.5), alpha=0.01, optimizer=None).fit(X, y)
    for asked in ("return_std", "return_cov"):
        (mean, spread), (mean2, spread2) = (model.predict(Xq, **{asked: True}) for model in (ours, theirs))
        np.testing.assert_allclose(mean, mean2, rtol=0, atol=1e-8)
        np.testing.assert_allclose(spread, spread2, rtol=0, atol=1e-8)
    assert ours.sample_y(Xq, 3).shape == theirs.sample_y(Xq, 3).shape


def test_draws_have_the_moments_of_the_posterior():
    X, y, Xq = wave()
    model = AttentionKernelRidge("gaussian", temperature=0.4, ridge=0.1).fit(X, y + 100)
    mean, cov = model.predict(Xq, return_cov=True)
    draws = model.sample_y(Xq, 20_000, random_state=3)
    np.testing.assert_array_equal(draws, model.sample_y(Xq, 20_000, random_state=3))
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * np.sqrt(cov.max() / 20_000))
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.05 * cov.max())
    assert model.scale_ == pytest.approx(model.solution_.most_likely_scale)
    assert not np.array_equal(draws, model.sample_y(Xq, 20_000, random_state=np.random.RandomState(1)))


@pytest.mark.parametrize("intercept", [True, False])
def test_intervals_are_those_of_refits_of_the_estimator_itself(intercept):
    """The intercept is fitted again without the row, too."""
    X, y, Xq = wave(30, 5)
    model = AttentionKernelRidge("gaussian", temperature=0.4, ridge=0.05, fit_intercept=intercept)
    low, high = np.empty((30, 5)), np.empty((30, 5))
    for i in range(30):
        rest = np.arange(30) != i
        left = clone(model).fit(X[rest], y[rest] + 7)
        off = abs(y[i] + 7 - left.predict(X[i : i + 1])[0])
        low[i], high[i] = left.predict(Xq) - off, left.predict(Xq) + off
    ends = model.fit(X, y + 7).predict_interval(Xq, 0.8)
    np.testing.assert_allclose(ends[0], np.sort(low, 0)[5], rtol=0, atol=1e-10)
    np.testing.assert_allclose(ends[1], np.sort(high, 0)[24], rtol=0, atol=1e-10)


def test_folds_leave_their_intercept_out_too():
    X, y, Xq = wave(30, 5)
    model = AttentionKernelRidge("gaussian", temperature=0.4, ridge=0.05).fit(X, y + 7)
    fine = fit_interval(model.solution_, Xq, 0.8, "cv+", folds=30, centred=True)
    low, high = model.predict_interval(Xq, 0.8)
    np.testing.assert_allclose(fine.low + model.intercept_, low, rtol=0, atol=1e-10)
    np.testing.assert_allclose(fine.high + model.intercept_, high, rtol=0, atol=1e-10)


def test_split_intervals_take_calibration_rows():
    X, y, Xq = wave(200, 5)
    model = AttentionKernelRidge("gaussian", temperature=0.4, ridge=0.05).fit(X[:100], y[:100] + 7)
    low, high = model.predict_interval(Xq, 0.8, "split", (X[100:], y[100:] + 7))
    half = np.sort(np.abs(y[100:] + 7 - model.predict(X[100:])))[80]
    np.testing.assert_allclose(high - low, 2 * half)
    np.testing.assert_allclose((high + low) / 2, model.predict(Xq))


def test_what_uncertainty_refuses():
    X, y, Xq = wave(30, 3)
    model = AttentionKernelRidge(ridge=0.1).fit(X, y)
    with pytest.raises(errors.InputError, match="ask for one"):
        model.predict(Xq, return_std=True, return_cov=True)
    with pytest.raises(errors.InputError, match="fit without an intercept"):
        model.predict_interval(Xq, method="full")
    with pytest.raises(errors.InputError, match="at least 99"):
        model.predict_interval(Xq, level=0.99)
    with pytest.raises(errors.InputError, match="not exchangeable"):
        AttentionKernelRidge().fit(X, y, np.arange(1, 31)).predict_interval(Xq)
    with pytest.raises(errors.UnknownNameError, match="scale"):
        AttentionKernelRidge(scale="most likely").fit(X, y).predict(Xq, return_std=True)
    with pytest.raises(errors.InputError, match="scale is -1"):
        AttentionKernelRidge(scale=-1.0).fit(X, y).predict(Xq, return_std=True)
    with pytest.raises(NotFittedError):
        AttentionKernelRidge().predict_interval(Xq)
