import pytest
import torch
from torch.autograd import gradcheck

from ridgeformer import errors
from ridgeformer.influence import influence
from ridgeformer.influence.differentiable import differentiable_influence
from ridgeformer.kernels import DotProduct, Exponential
from tests.influence.influence_case import KERNELS, assert_equal, problem


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
