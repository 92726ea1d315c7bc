import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ridgeformer import errors
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge, NadarayaWatsonRegressor
from ridgeformer.kernels import Exponential

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
