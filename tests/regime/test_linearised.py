import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import Linearised, empirical_ntk, kernel_descent, linearised_predictions


def problem(n=6, q=4, p=5):
    """Rows of features, so that the exact parameter-space run is at hand; rank p < n."""
    generator = torch_generator(0, "problem")
    J, Jq = (torch.randn(k, p, generator=generator, dtype=torch.float64) for k in (n, q))
    y = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    theta = torch.randn(p, 2, generator=generator, dtype=torch.float64)
    return J, Jq, y, theta


def run(J, y, theta, steps, rate, scale, l2):
    for _ in range(steps):
        theta = theta - rate * (scale * J.T @ (J @ theta - y) + l2 * theta)
    return theta


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("steps", [0, 1, 40])
def test_descent_equals_descent_on_the_weights(steps, l2):
    J, Jq, y, theta = problem()
    scale, rate = 1 / 6, 0.3
    found = linearised_predictions(
        J @ J.T, Jq @ J.T, y, start=J @ theta, start_query=Jq @ theta, time=steps, rate=rate, scale=scale, l2=l2
    )
    torch.testing.assert_close(found, Jq @ run(J, y, theta, steps, rate, scale, l2), rtol=1e-10, atol=1e-10)
    stepped = kernel_descent(
        J @ J.T, Jq @ J.T, lambda f: scale * (f - y), start=J @ theta, start_query=Jq @ theta,
        steps=steps, rate=rate, l2=l2,
    )  # fmt: skip
    torch.testing.assert_close(found, stepped, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_flow_is_the_limit_of_small_steps(l2):
    J, Jq, y, theta = problem()
    found = linearised_predictions(J @ J.T, Jq @ J.T, y, start=J @ theta, start_query=Jq @ theta, time=0.5, l2=l2)
    runs = [run(J, y, theta, steps, 0.5 / steps, 1.0, l2) for steps in (1000, 2000)]
    errors = [float((found - Jq @ end).abs().max()) for end in runs]
    assert errors[1] < 5e-3
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_long_training_with_a_penalty_is_ridge_regression():
    J, Jq, y, theta = problem()
    found = linearised_predictions(
        J @ J.T, Jq @ J.T, y, start=J @ theta, start_query=Jq @ theta, time=1e4, l2=0.2, scale=0.5
    )
    ridge = Jq @ J.T @ torch.linalg.solve(J @ J.T + 0.4 * torch.eye(6, dtype=torch.float64), y)
    torch.testing.assert_close(found, ridge, rtol=1e-9, atol=1e-9)


def test_modes_of_no_curvature_keep_their_digits():
    """(1 - e^-at)/a at a = 1e-14 by subtraction would be wrong in the second digit."""
    K = torch.diag(torch.tensor([1.0, 1e-14, 0.0], dtype=torch.float64))
    y = torch.ones(3, dtype=torch.float64)
    cross = torch.eye(3, dtype=torch.float64)
    for extra in ({}, {"rate": 1.0}):
        alpha = linearised_predictions(K, cross, y, start=0.0, start_query=0.0, time=3, **extra)
        assert float(alpha[1, 0]) == pytest.approx(3.0, rel=1e-12)
        assert float(alpha[2, 0]) == pytest.approx(3.0, rel=1e-12)


def model():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    for weight in net.parameters():
        nn.init.normal_(weight, std=0.5, generator=torch_generator(1, "weights"))
    return net


def test_expansion_is_first_order():
    """Halving the step quarters the gap: the second-order term is what is left out."""
    net, X = model(), torch.randn(4, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)
    expansion, gaps = Linearised(net), []
    origin = [weight.detach().clone() for weight in net.parameters()]
    directions = [torch.randn(w.shape, generator=torch_generator(2, "way"), dtype=torch.float64) for w in origin]
    for size in (1e-2, 5e-3):
        with torch.no_grad():
            for own, other, start, way in zip(net.parameters(), expansion.weights, origin, directions, strict=True):
                own.copy_(start + size * way)
                other.copy_(start + size * way)
        gaps.append(float((net(X) - expansion(X)).detach().norm()))
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)


def test_trained_expansion_follows_its_kernel():
    """Gradient descent on the expansion's own weights is descent in function space with the tangent kernel."""
    net, X = model(), torch.randn(4, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)
    y = torch.randn(4, 2, generator=torch_generator(0, "y"), dtype=torch.float64)
    K = empirical_ntk(net, X, outputs="full").reshape(8, 8)
    start = net(X).detach().reshape(8, 1)
    expected = linearised_predictions(K, K, y.reshape(8, 1), start=start, start_query=start, time=20, rate=0.02)
    expansion = Linearised(net)
    optimiser = torch.optim.SGD(expansion.parameters(), lr=0.02)
    for _ in range(20):
        optimiser.zero_grad()
        ((expansion(X) - y).square().sum() / 2).backward()
        optimiser.step()
    torch.testing.assert_close(expansion(X).detach().reshape(8, 1), expected, rtol=1e-10, atol=1e-10)


def test_refuses_what_has_no_answer():
    K = torch.eye(2, dtype=torch.float64)
    y = torch.ones(2, dtype=torch.float64)
    start = {"start": 0.0, "start_query": 0.0}
    with pytest.raises(InputError, match="take a rate below 2"):
        linearised_predictions(K, K, y, time=5, rate=2.1, **start)
    with pytest.raises(InputError, match="time"):
        linearised_predictions(K, K, y, time=-1.0, **start)
    with pytest.raises(InputError, match="l2"):
        linearised_predictions(K, K, y, time=1.0, l2=-1.0, **start)
    with pytest.raises(ShapeError, match=r"\(queries, n\)"):
        linearised_predictions(K, torch.ones(2, 3), y, time=1.0, **start)
    with pytest.raises(ShapeError, match="same outputs"):
        linearised_predictions(K, K, y, time=1.0, start=torch.ones(2, 3), start_query=0.0)
