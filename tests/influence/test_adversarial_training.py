import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, adversarial_rows, fit
from ridgeformer.influence.attacks import FGSM
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import assert_equal, problem


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_each_round_attacks_the_rows_as_given_under_the_fit_of_the_round_before(features, rounds):
    X, y, Xq = problem()
    moved = X
    for _ in range(rounds):
        leaf = X.clone().requires_grad_()
        alpha = fit(Exponential(2.0), features(moved, Xq)[0], y, 0.3).alpha
        outputs = Exponential(2.0)(features(leaf, Xq)[0], features(moved, Xq)[0]) @ alpha
        loss = (outputs[:, 0] - y).square().sum() / 2
        moved = X + 0.1 * torch.autograd.grad(loss, leaf)[0].sign()
    assert_equal(adversarial_rows(Exponential(2.0), X, y, Xq, 0.3, FGSM(0.1), rounds, features=features), moved)


@pytest.mark.parametrize("rounds", [-1, 1.5, "many"])
def test_rounds_that_are_no_number_of_rounds(rounds):
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="rounds is"):
        adversarial_rows(Exponential(2.0), X, y, Xq, 0.3, FGSM(0.1), rounds)
