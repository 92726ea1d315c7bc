import pytest
import torch
from torch.autograd import gradcheck

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, fit, influence, squared_loss
from ridgeformer.influence.baseline import (
    as_share,
    baseline,
    differentiable_influence,
    influence_reversal,
    training_loss,
)
from ridgeformer.influence.exact import influence_of
from ridgeformer.influence.influences import score
from ridgeformer.kernels import DotProduct, Exponential
from tests.influence.influence_case import KERNELS, assert_equal, draw, problem


@pytest.mark.parametrize("name", KERNELS)
def test_the_value_is_the_exact_influence(name):
    X, y, Xq = problem(classes=3)
    kernel = KERNELS[name](X)
    found, exact = differentiable_influence(kernel, X, y, Xq, 0.3), influence(kernel, X, y, Xq, 0.3)
    assert_equal(found.leave_one_out, exact.leave_one_out)
    assert_equal(found.predictions, exact.predictions)


def test_gradients_are_exact():
    X, y, Xq = problem(n=5, d=2, q=2)

    def pairs(X, Xq):
        return differentiable_influence(Exponential(2.0), X, y[:, None], Xq, 0.3).leave_one_out

    assert gradcheck(pairs, (X.requires_grad_(), Xq.requires_grad_()))


def test_a_singular_system_is_refused():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="singular"):
        differentiable_influence(DotProduct(), torch.cat([X, X]), torch.cat([y, y])[:, None], Xq, 0.0)


TOP = torch.tensor([3, 8])


def test_the_training_loss_is_that_of_the_model_as_fitted():
    X, y, Xq = problem(classes=3)
    features, kernel = AttentionFeatures(), Exponential(1.0)
    Phi, _ = features(X, Xq)
    moved = X + 0.1 * draw(*X.shape, purpose="move")
    alpha = torch.linalg.solve(kernel(Phi) + 0.3 * torch.eye(18).double(), y)
    expected = ((kernel(features(moved, Xq)[0], Phi) @ alpha - y) ** 2).sum(1)[TOP] / 2
    objective = training_loss(fit(kernel, Phi, y, 0.3), Xq, features, TOP, squared_loss)
    assert_equal(objective(moved), expected)


def test_reversal_is_minus_one_each_at_the_start_and_follows_the_refit():
    X, y, Xq = problem(classes=3)
    kernel, yq, raw = Exponential(2.0), y[:5], RawFeatures()
    fitted = fit(kernel, X, y, 0.3)
    before = score(influence_of(fitted, Xq), yq, "true_class").mean(1)
    objective = influence_reversal(fitted, Xq, yq, raw, TOP, "true_class", before)
    assert_equal(objective(X), torch.full((2,), -1.0).double())
    moved = X + 0.1 * draw(*X.shape, purpose="move")
    after = score(influence_of(fit(kernel, moved, y, 0.3), Xq), yq, "true_class").mean(1)
    assert_equal(objective(moved), -after[TOP] / before[TOP])


def made(tau=0.2):
    X, y, _ = problem(n=24, classes=3, q=1)
    return baseline(Exponential(1.0), X[:18], y[:18], X[18:], y[18:], 0.3, tau, None, "true_class")


def test_the_top_is_of_the_mean_over_queries_and_can_be_cut():
    base = made()
    order = base.before.mean(1).abs().argsort(descending=True)
    assert base.top().tolist() == order[:4].tolist()
    assert base.top(2).tolist() == order[:2].tolist()


def test_a_refit_of_some_rows_by_another_kernel():
    base, kept = made(), torch.arange(10)
    _, found = base.refit(base.X[kept], Exponential(3.0), kept)
    table = influence(Exponential(3.0), base.X[kept], base.y[kept], base.Xq, 0.3).leave_one_out
    assert_equal(found, table[:, range(6), base.yq.argmax(1)])
    assert isinstance(base.features, RawFeatures)


@pytest.mark.parametrize("tau", [0, -0.1, 1.5, float("nan"), "all", None])
def test_a_share_that_is_none(tau):
    with pytest.raises(errors.InputError, match="tau is"):
        as_share(tau)
