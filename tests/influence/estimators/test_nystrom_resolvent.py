import pytest
import torch

from ridgeformer.influence.estimators.setting import prepare
from tests.influence.estimators.digits_case import KERNELS, RIDGE, digits, exact


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rank", [10, 80])
def test_the_diagonal_of_the_inverse_lies_between_its_bounds(name, rank):
    sketch = prepare(KERNELS[name], *digits(), RIDGE, rank, 0).sketch
    truth, slack = exact(name).diagonal, 1e-10 / RIDGE
    assert bool((sketch.least_diagonal <= truth + slack).all())
    assert bool((truth <= sketch.diagonal + slack).all())


@pytest.mark.parametrize("name", KERNELS)
def test_products_and_bounds_are_those_of_the_dense_matrices(name):
    X, y, Xq = digits()
    setting = prepare(KERNELS[name], X, y, Xq, RIDGE, 40, 0)
    sketch, K, eye = setting.sketch, KERNELS[name](X), torch.eye(len(X), dtype=torch.float64)
    U, values = sketch.factor.U, sketch.factor.values
    approximation = (U * values) @ U.T
    Q = torch.linalg.inv(approximation + RIDGE * eye)
    torch.testing.assert_close(sketch.apply(y), Q @ y)
    torch.testing.assert_close(sketch.diagonal, Q.diagonal())
    best = Q.diagonal() ** 2 / (Q @ (K + RIDGE * eye) @ Q).diagonal()
    torch.testing.assert_close(sketch.least_diagonal, best.maximum(1 / (K.diagonal() + RIDGE)))
    tail = float((K - approximation).trace()) / (len(X) - 40)
    assert sketch.tail == pytest.approx(tail)
    with_tail = torch.linalg.inv(approximation + tail * (eye - U @ U.T) + RIDGE * eye)
    torch.testing.assert_close(sketch.apply_with_tail(y), with_tail @ y)


def test_the_lower_bound_is_nearer_than_the_upper_the_more_so_the_better_the_sketch():
    truth, ratios = exact("relu_ntk").diagonal, []
    for rank in (60, 240):
        sketch = prepare(KERNELS["relu_ntk"], *digits(), RIDGE, rank, 0).sketch
        ratios.append(float((truth - sketch.least_diagonal).max()) / float((sketch.diagonal - truth).max()))
    assert ratios[0] < 1 / 4
    assert ratios[1] < ratios[0]
