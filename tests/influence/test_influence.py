import pytest
import torch

from ridgeformer.influence import cross_entropy, influence, squared_loss
from tests.influence.influence_case import KERNELS, assert_equal, problem, refit, without


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("classes", "loss"), [(0, squared_loss), (3, squared_loss), (3, cross_entropy)])
def test_loss_influence_equals_real_refits(name, classes, loss):
    X, y, Xq = problem(classes=classes)
    kernel, n, yq = KERNELS[name](X), len(X), y[:5].flip(0)
    columns = yq.reshape(5, -1)

    def losses(keep=None):
        return loss(refit(kernel, X, y, Xq, 0.3, keep).reshape(5, -1), columns)

    expected = torch.stack([losses(without(n, i)) - losses() for i in range(n)])
    assert_equal(influence(kernel, X, y, Xq, 0.3).loss_influence(loss, yq), expected)


def test_errors_of_the_arrays_bound_the_error_of_leave_one_out():
    """Moved arrays, with errors as large as the moves, cover the exact influence in every corner."""
    X, y, Xq = problem(classes=3)
    exact = influence(KERNELS["exponential"](X), X, y, Xq, 0.3)
    sharpest = 0.0
    for signs in torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3):
        moved = type(exact)(
            exact.alpha * (1 + 0.1 * signs[0]),
            exact.weights * (1 + 0.2 * signs[1]),
            exact.diagonal * (1 + 0.05 * signs[2]),
            exact.predictions,
            exact.ridge,
            alpha_error=0.1001 * exact.alpha.abs(),
            weights_error=0.2001 * exact.weights.abs(),
            diagonal_error=0.0501 * exact.diagonal,
        )
        gap = (moved.leave_one_out - exact.leave_one_out).abs()
        assert bool((gap <= moved.leave_one_out_error).all())
        sharpest = max(sharpest, float((gap / moved.leave_one_out_error).max()))
    assert sharpest > 0.8
    assert float(exact.leave_one_out_error.max()) == 0
