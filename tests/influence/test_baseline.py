import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import RawFeatures, influence
from ridgeformer.influence.baseline import as_share, baseline
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import assert_equal, problem


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
