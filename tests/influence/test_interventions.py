import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, adversarial_rows, fit, influence, intervene
from ridgeformer.influence.attacks import FGSM
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import assert_equal, problem, refit, without


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_each_round_attacks_the_rows_as_given_under_the_fit_of_the_round_before(features, rounds):
    X, y, Xq = problem()
    moved = X
    for _ in range(rounds):
        leaf = X.clone().requires_grad_()
        alpha = fit(Exponential(2.0), features(moved, Xq)[0], y[:, None], 0.3).alpha
        outputs = Exponential(2.0)(features(leaf, Xq)[0], features(moved, Xq)[0]) @ alpha
        loss = (outputs[:, 0] - y).square().sum() / 2
        moved = X + 0.1 * torch.autograd.grad(loss, leaf)[0].sign()
    assert_equal(adversarial_rows(Exponential(2.0), X, y, Xq, 0.3, FGSM(0.1), rounds, features=features), moved)


@pytest.mark.parametrize("rounds", [-1, 1.5, "many"])
def test_rounds_that_are_no_number_of_rounds(rounds):
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="rounds is"):
        adversarial_rows(Exponential(2.0), X, y, Xq, 0.3, FGSM(0.1), rounds)


def classes(n=30, q=8):
    X, y, _ = problem(n=n + q, classes=3, q=1)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_each_fit_is_a_real_one(features):
    X, y, Xq, yq = classes()
    found = intervene(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.5), tau=0.2, features=features)
    rest = without(30, *found.top.tolist())
    assert found.curated.kept.tolist() == torch.arange(30)[rest].tolist()
    assert_equal(found.curated.X, X[rest])
    assert torch.equal(found.transformed.X[rest], X[rest])
    assert not bool((found.adversarial.X == X).all(1).any())
    for one in (found.untouched, found.curated, found.transformed, found.adversarial):
        rows, queries = features(one.X, Xq)
        outputs = refit(Exponential(1.0), rows, y[one.kept], queries, 0.3)
        own = yq.argmax(1)
        assert one.accuracy == pytest.approx(float((outputs.argmax(1) == own).double().mean()))
        margins = [
            float(row[c] - max(value for k, value in enumerate(row) if k != c))
            for row, c in zip(outputs, own, strict=True)
        ]
        assert one.margin == pytest.approx(sum(margins) / len(margins))
        table = influence(Exponential(1.0), rows, y[one.kept], queries, 0.3).leave_one_out
        assert one.influence == pytest.approx(float(table[:, range(len(own)), own].abs().mean()))


def test_one_column_of_signs():
    X, y, Xq, yq = classes()
    found = intervene(Exponential(1.0), X, y[:, 0], Xq, yq[:, 0], 0.3, FGSM(0.5))
    outputs = refit(Exponential(1.0), X, y[:, :1], Xq, 0.3)[:, 0]
    assert found.untouched.margin == pytest.approx(float((outputs * yq[:, 0]).mean()))


def test_an_attack_of_size_zero_changes_nothing_but_what_is_removed():
    X, y, Xq, yq = classes()
    found = intervene(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.0))
    assert found.transformed.margin == found.adversarial.margin == pytest.approx(found.untouched.margin)
    assert found.adversarial.changed.flips_all == 0
    assert found.curated.margin != pytest.approx(found.untouched.margin)


def test_more_rounds_of_adversarial_training():
    X, y, Xq, yq = classes()
    found = intervene(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.5), rounds=3)
    assert torch.equal(found.adversarial.X, adversarial_rows(Exponential(1.0), X, y, Xq, 0.3, FGSM(0.5), 3))
    with pytest.raises(errors.InputError, match="rounds is 0"):
        intervene(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.5), rounds=0)


def test_bad_input():
    X, y, Xq, yq = classes()
    with pytest.raises(errors.InputError, match="tau is 2"):
        intervene(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.1), tau=2)
    with pytest.raises(errors.InputError, match="one class only"):
        intervene(Exponential(1.0), X, torch.ones(30), Xq, torch.ones(8), 0.3, FGSM(0.1))
