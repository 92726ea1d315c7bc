import math

import pytest
import torch
from scipy.stats import spearmanr
from torch.autograd import gradcheck

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, influence, squared_loss
from ridgeformer.influence.baseline import (
    baseline,
    compare,
    differentiable_influence,
    rank_correlations,
    top_rows,
    training_loss,
)
from ridgeformer.influence.exact import score
from ridgeformer.kernels import DotProduct, Exponential
from tests.influence.influence_case import KERNELS, assert_equal, draw, fit, problem


@pytest.mark.parametrize("name", KERNELS)
def test_the_value_is_the_exact_influence(name):
    X, y, Xq = problem(classes=3)
    kernel = KERNELS[name](X)
    found, exact = differentiable_influence(kernel, X, y, Xq, 0.3), influence(fit(kernel, X, y, 0.3), Xq)
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
    kernel, yq = Exponential(2.0), y[:5]
    base = baseline(fit(kernel, X, y, 0.3), Xq, yq, 0.2)
    before, objective = base.before.mean(1), base.reversed_influence(TOP)
    assert_equal(objective(X), torch.full((2,), -1.0).double())
    moved = X + 0.1 * draw(*X.shape, purpose="move")
    after = score(influence(fit(kernel, moved, y, 0.3), Xq), yq, "true_class").mean(1)
    assert_equal(objective(moved), -after[TOP] / before[TOP])


def made(tau=0.2):
    X, y, _ = problem(n=24, classes=3, q=1)
    return baseline(fit(Exponential(1.0), X[:18], y[:18], 0.3), X[18:], y[18:], tau)


def test_the_top_is_of_the_mean_over_queries_and_can_be_cut():
    base = made()
    order = base.before.mean(1).abs().argsort(descending=True)
    assert base.top().tolist() == order[:4].tolist()
    assert base.top(2).tolist() == order[:2].tolist()


def test_a_refit_of_some_rows_by_another_kernel():
    base, kept = made(), torch.arange(10)
    _, found = base.refit(base.X[kept], Exponential(3.0), kept)
    table = influence(fit(Exponential(3.0), base.X[kept], base.y[kept], 0.3), base.Xq).leave_one_out
    assert_equal(found, table[:, range(6), base.yq.argmax(1)])
    assert isinstance(base.features, RawFeatures)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("tau", [0, -0.1, 1.5, float("nan"), "all", None])
def test_a_share_that_is_none(tau):
    with pytest.raises(errors.InputError, match="tau is"):
        made(tau)


def test_every_figure_is_what_a_plain_loop_counts():
    before, after = draw(40, 6, purpose="before"), draw(40, 6, purpose="after") + draw(40, 6, purpose="before")
    top = top_rows(before.mean(1), 7)
    found = compare(before, after, top)
    flips = [[bool(before[i, q] * after[i, q] < 0) for q in range(6)] for i in range(40)]
    means = [bool(before[i].mean() * after[i].mean() < 0) for i in range(40)]
    assert found.flips_top == pytest.approx(sum(means[i] for i in top) / 7)
    assert found.flips_all == pytest.approx(sum(means) / 40)
    assert found.pair_flips_top == pytest.approx(sum(flips[i][q] for i in top for q in range(6)) / 42)
    assert found.pair_flips_all == pytest.approx(sum(map(sum, flips)) / 240)
    assert found.flips_per_query.tolist() == pytest.approx([sum(flips[i][q] for i in top) / 7 for q in range(6)])
    assert found.spearman == pytest.approx(spearmanr(before.mean(1), after.mean(1)).statistic)
    each = [spearmanr(before[:, q], after[:, q]).statistic for q in range(6)]
    assert found.pair_spearman == pytest.approx(sum(each) / 6)

    def strongest(column):
        return set(sorted(range(40), key=lambda i: -abs(float(column[i])))[:7])

    assert set(top.tolist()) == strongest(before.mean(1))
    assert found.overlap == pytest.approx(len(strongest(before.mean(1)) & strongest(after.mean(1))) / 7)
    own = [len(strongest(before[:, q]) & strongest(after[:, q])) / 7 for q in range(6)]
    assert found.pair_overlap == pytest.approx(sum(own) / 6)


def test_nothing_changed():
    table = draw(20, 3, purpose="table")
    found = compare(table, table, torch.tensor([0, 1]))
    assert (found.flips_top, found.flips_all, found.pair_flips_all) == (0, 0, 0)
    assert (found.spearman, found.overlap, found.pair_overlap) == (pytest.approx(1), 1, 1)


def test_ties_have_their_mean_rank_and_a_constant_has_no_ranks():
    one, other = torch.tensor([1.0, 1.0, 2.0, 3.0]), torch.tensor([4.0, 1.0, 1.0, 5.0])
    pairs = torch.stack([one, torch.ones(4)], 1), torch.stack([other, one], 1)
    found = rank_correlations(*pairs)
    assert found[0] == pytest.approx(spearmanr(one, other).statistic)
    assert math.isnan(found[1])


def test_an_influence_that_becomes_zero_has_not_flipped():
    assert compare(torch.tensor([[1.0]]), torch.tensor([[0.0]]), torch.tensor([0])).flips_all == 0
