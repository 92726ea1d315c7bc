import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, influence
from ridgeformer.influence.pair import choose_pair, factors
from tests.influence.influence_case import KERNELS, assert_equal, draw, problem


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_the_factors_give_the_influence_after_any_move_of_the_row(name, features):
    X, y, Xq = problem(classes=3)
    X = X / 2
    kernel = KERNELS[name](X)
    evaluate = factors(choose_pair(kernel, X, y, Xq, 0.3, 4, 2, 1, features))
    moved = X.clone()
    moved[4] += 0.3 * draw(4, purpose="move")
    rows, queries = features(moved, Xq)
    found = influence(kernel, rows, y, queries, 0.3)
    residual, covariance = evaluate(moved)
    assert_equal(residual, found.residual[4, 1])
    assert_equal(residual * covariance * found.diagonal[4], found.leave_one_out[4, 2, 1])


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ((18, 0, 0), "index is 18; .*from 0 to 17"),
        ((0, 5, 0), "query is 5; .*from 0 to 4"),
        ((0, -1, 0), "query is -1"),
        ((0, 0, 3), "output is 3"),
        ((0.5, 0, 0), "index is 0.5"),
    ],
)
def test_out_of_range(which, words):
    X, y, Xq = problem(classes=3)
    with pytest.raises(errors.InputError, match=words):
        choose_pair(KERNELS["exponential"](X), X, y, Xq, 0.3, *which, None)


def test_one_row_has_nothing_to_leave_out():
    with pytest.raises(errors.InputError, match="at least two"):
        choose_pair(KERNELS["dot_product"](None), torch.ones(1, 2), [1.0], torch.ones(1, 2), 1.0, 0, 0, 0, None)
