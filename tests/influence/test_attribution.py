"""Judging attribution scores: good methods are told from bad ones, in words, by exact refits."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer import datasets
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import judge_scores, score_malleability
from ridgeformer.influence.attacks import PGD
from ridgeformer.views.attribution_page import attribution_page, attribution_table
from ridgeformer.views.page import render_page


@pytest.fixture(scope="module")
def digits():
    data = datasets.load("digits", limit=140)
    X = datasets.unit_rows(data.X)
    return X[:110], data.y[:110], X[110:], data.y[110:]


def with_bias(X, rows):
    """Rows with the constant feature of the head: the root mean square length of the training rows."""
    return np.hstack([rows, np.full((len(rows), 1), np.sqrt((X**2).sum() / len(X)))])


def exact_scores(X, y, Xq, yq, ridge):
    """Leave-one-out of the true class's output, by a plain inverse."""
    classes = np.unique(y)
    targets = np.where(y[:, None] == classes, 1.0, -1.0)
    X, Xq = with_bias(X, X), with_bias(X, Xq)
    R = np.linalg.inv(X @ X.T + ridge * np.eye(len(X)))
    effect = (R @ X @ Xq.T)[:, :, None] * ((R @ targets) / np.diag(R)[:, None])[:, None]
    return np.take_along_axis(effect, np.searchsorted(classes, yq)[None, :, None], 2)[:, :, 0]


def test_exact_leave_one_out_is_judged_as_what_it_is(digits):
    report = judge_scores(exact_scores(*digits, 0.5), *digits, ridge=0.5, subsets=80)
    given, exact = report.methods[:2]
    assert given.agreement.mean == pytest.approx(exact.agreement.mean, abs=1e-9)
    assert given.removed == pytest.approx(exact.removed, abs=1e-9)
    assert "better than every simple baseline" in report.sentences[0]


def test_removal_is_that_of_refits(digits):
    """The five best rows of each query are really left out."""
    X, y, Xq, yq = digits
    scores = exact_scores(*digits, 0.5)
    report = judge_scores(scores, *digits, ridge=0.5, subsets=5)
    X, Xq = with_bias(X, X), with_bias(X, Xq)
    classes = np.unique(y)
    targets = np.where(y[:, None] == classes, 1.0, -1.0)

    def predict(rows, query):
        A = X[rows] @ X[rows].T + 0.5 * np.eye(len(rows))
        return query @ X[rows].T @ np.linalg.solve(A, targets[rows])

    falls = []
    for j, query in enumerate(Xq):
        rest = np.argsort(-scores[:, j], kind="stable")[5:]
        own = np.searchsorted(classes, yq[j])
        falls.append((predict(np.arange(len(X)), query) - predict(rest, query))[own])
    assert report.methods[0].removed[1] == pytest.approx(np.mean(falls), abs=1e-9)


def test_bad_scores_are_called_bad(digits):
    noise = np.random.default_rng(0).normal(size=(110, 30))
    report = judge_scores(noise, *digits, ridge=0.5, subsets=60)
    assert "worse than" in report.sentences[0]
    assert abs(report.methods[0].agreement.mean) < 0.15
    assert judge_scores(-exact_scores(*digits, 0.5), *digits, ridge=0.5, subsets=60).methods[0].agreement.mean < -0.3


def test_mislabelled_rows_are_found(digits):
    X, y, Xq, yq = digits
    flipped = np.arange(0, 110, 15)
    wrong = y.copy()
    wrong[flipped] = (wrong[flipped] + 1) % 10
    report = judge_scores(exact_scores(X, wrong, Xq, yq, 0.5), X, wrong, Xq, yq, ridge=0.5, subsets=5, flipped=flipped)
    assert report.methods[0].recall == report.methods[1].recall
    assert report.methods[0].recall > 2 * len(flipped) / 110
    assert "mislabelled" in " ".join(report.sentences)


def test_numbers_are_regression_and_duplicates_are_said():
    generator = torch_generator(0, "judged")
    X = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    X[30] = X[0]
    y = X @ torch.tensor([1.0, -2.0, 0.5]).double()
    scores = torch.randn(50, 10, generator=generator, dtype=torch.float64)
    report = judge_scores(scores, X[:50], y[:50], X[50:], y[50:], subsets=20)
    assert report.quality > 0.95
    assert report.duplicates == 1
    assert "duplicates shield each other" in report.sentences[-1]


def test_wrong_input_is_refused(digits):
    X, y, Xq, yq = digits
    scores = np.zeros((110, 30))
    with pytest.raises(ShapeError, match="transpose them"):
        judge_scores(scores.T, *digits)
    with pytest.raises(InputError, match="NaN"):
        judge_scores(scores + np.nan, *digits)
    with pytest.raises(InputError, match="no training row has"):
        judge_scores(scores, X, y, Xq, np.full(30, 77))
    with pytest.raises(ShapeError, match="give one a row"):
        judge_scores(scores, X, y[:50], Xq, yq)


def test_the_page_names_every_method(digits):
    report = judge_scores(exact_scores(*digits, 0.5), *digits, ridge=0.5, subsets=20, name="my scores")
    shown = render_page(attribution_page(report))
    for method in report.methods:
        assert method.name in shown
    assert len(attribution_table(report).rows) == 5


def test_an_attack_changes_scores_more_than_calling_again(digits):
    X, y, Xq, yq = (np.asarray(one) for one in digits)
    targets, query_targets = (np.where(one[:, None] == np.unique(y), 1.0, -1.0) for one in (y, yq))

    def attribute(rows, labels, queries, query_labels):
        fit = rf.solve(rf.DotProduct(), rows, labels, 0.5, algorithm="direct")
        effect = fit.inverse @ fit.kernel.dense(fit.X, queries)
        own = fit.alpha / fit.inverse_diagonal[:, None]
        return torch.einsum("nq,nq->nq", effect, own[:, query_labels.argmax(1)])

    fit = rf.solve(rf.DotProduct(), X, targets, 0.5, algorithm="direct")
    found = score_malleability(attribute, fit, Xq, query_targets, PGD(eps=0.1), tau=0.1, seed=0)
    assert found.repeated.flips_top == 0
    assert found.attacked.flips_top >= found.noise.flips_top
    assert found.attacked.spearman < found.repeated.spearman
    assert "random noise of the same size" in str(found)
