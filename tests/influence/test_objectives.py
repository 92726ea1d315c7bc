import torch

from ridgeformer.influence import AttentionFeatures, RawFeatures, fit, squared_loss
from ridgeformer.influence.objectives import influence_reversal, training_loss
from ridgeformer.influence.scores import score
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import assert_equal, draw, problem

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
    before = score(fitted.influence(Xq), yq, "true_class").mean(1)
    objective = influence_reversal(fitted, Xq, yq, raw, TOP, "true_class", before)
    assert_equal(objective(X), torch.full((2,), -1.0).double())
    moved = X + 0.1 * draw(*X.shape, purpose="move")
    after = score(fit(kernel, moved, y, 0.3).influence(Xq), yq, "true_class").mean(1)
    assert_equal(objective(moved), -after[TOP] / before[TOP])
