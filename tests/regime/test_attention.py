import pytest
import torch

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import GramPower
from ridgeformer.regime import LinearisedAttention, normalise_rows, softmax_gap


def rows(n=7, d=4, purpose="rows"):
    return torch.randn(n, d, generator=torch_generator(0, purpose), dtype=torch.float64)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("normalise", [True, False])
def test_two_layers_equal_the_formula(normalise):
    X = rows()
    unit = normalise_rows if normalise else lambda Z: Z
    first = unit(X @ X.T @ X)
    close(LinearisedAttention(X, layers=2, normalise=normalise)(X), unit(first @ first.T @ first))
    close(LinearisedAttention(X, layers=2, recompute=False, normalise=normalise)(X), unit(X @ X.T @ first))


@pytest.mark.parametrize("recompute", [True, False])
def test_a_row_of_the_context_is_treated_alike_alone(recompute):
    X = rows()
    attention = LinearisedAttention(X, layers=3, recompute=recompute, rank=2)
    close(attention(X[2:4]), attention(X)[2:4])


def test_kernel_of_the_features_is_the_gram_power():
    X, Z = rows(), rows(3, purpose="queries")
    attention = LinearisedAttention(X, normalise=False)
    close(attention(Z) @ attention(X).T, GramPower(3, X)(Z, X))


def test_kernel_with_a_fixed_dataset_is_linear_with_its_own_penalty():
    """L15: ridge regression with x'C^2 z is linear ridge regression with penalty l w'C^-2 w."""
    X, Z, y, ridge = rows(), rows(3, purpose="queries"), rows(7, 1, "y"), 0.3
    attention = LinearisedAttention(X, normalise=False)
    F, C = attention(X), X.T @ X
    by_kernel = attention(Z) @ F.T @ torch.linalg.solve(F @ F.T + ridge * torch.eye(7, dtype=torch.float64), y)
    w = torch.linalg.solve(C + ridge * torch.linalg.inv(C @ C), X.T @ y)
    assert float((by_kernel - Z @ w).abs().max()) < 5e-12 * float(by_kernel.abs().max()) * 10


def test_truncation_keeps_the_best_rank():
    X = rows()
    U, S, Vt = torch.linalg.svd(X, full_matrices=False)
    best = U[:, :2] @ torch.diag(S[:2] ** 3) @ Vt[:2]
    close(LinearisedAttention(X, rank=2, normalise=False)(X), best)
    close(LinearisedAttention(X, rank=4)(X), LinearisedAttention(X)(X))


@pytest.mark.parametrize("seed", range(3))
def test_linear_attention_is_softmax_for_centred_rows_only(seed):
    """L16, n = 40, d = 5: centred, the gap falls with the scale (.081 / .0078 / .00077); uncentred it tends to 1."""
    X = torch.randn(40, 5, generator=torch_generator(seed, "rows"), dtype=torch.float64)
    centred = [softmax_gap(X - X.mean(0), scale) for scale in (0.1, 0.01, 0.001)]
    assert centred[0] / centred[1] == pytest.approx(10, rel=0.2)
    assert centred[1] / centred[2] == pytest.approx(10, rel=0.05)
    assert 0.0004 < centred[2] < 0.004
    uncentred = [softmax_gap(X, scale) for scale in (0.1, 0.01, 0.001)]
    assert 0.4 < uncentred[0] < uncentred[1] < uncentred[2] < 1
    assert uncentred[2] > 0.99


def test_gradient_flows_through_the_row_and_not_the_context():
    X = rows().requires_grad_()
    attention = LinearisedAttention(X)
    x = rows(1, purpose="x").requires_grad_()
    attention(x).square().sum().backward()
    assert x.grad is not None
    assert X.grad is None


def test_refuses_bad_input():
    with pytest.raises(InputError, match=r"row 1 of the attention features is all zeros"):
        LinearisedAttention([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="rank is 5"):
        LinearisedAttention(rows(), rank=5)
    with pytest.raises(ShapeError, match="features"):
        LinearisedAttention(rows())(rows(2, 3))
    with pytest.raises(InputError, match="layers"):
        LinearisedAttention(rows(), layers=-1)
