from itertools import pairwise

import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    Architecture,
    Linearised,
    NetworkNTK,
    ReluNetwork,
    Training,
    empirical_ntk,
    kernel_descent,
    linearised_predictions,
    train,
)
from ridgeformer.regime.tangent_kernel import EmpiricalNTK, stable_rate, tangent_norm
from tests.influence.influence_case import draw


def network(outputs):
    model = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, outputs)).double()
    for weight in model.parameters():
        nn.init.normal_(weight, generator=torch_generator(0, "weights"))
    return model


def rows(n=5):
    return torch.randn(n, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)


def naive(model, X):
    """One backward pass per row and output."""
    gradients = []
    for x in X:
        for output in model(x[None])[0]:
            parts = torch.autograd.grad(output, list(model.parameters()), retain_graph=True)
            gradients.append(torch.cat([part.flatten() for part in parts]))
    J = torch.stack(gradients)
    c = len(J) // len(X)
    return (J @ J.T).reshape(len(X), c, len(X), c)


@pytest.mark.parametrize("batch", [None, 1, 2, 5, 9])
@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_one_backward_pass_per_output(outputs, batch):
    model, X = network(outputs), rows()
    oracle = naive(model, X)
    full = empirical_ntk(model, X, outputs="full", batch=batch)
    mean = empirical_ntk(model, X, batch=batch)
    torch.testing.assert_close(full, oracle, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mean, torch.einsum("iaja->ij", oracle) / outputs, rtol=1e-12, atol=1e-12)
    assert torch.equal(mean, mean.T)
    assert torch.equal(full, full.permute(2, 3, 0, 1))


def test_counts_only_what_is_trained():
    model = network(1)
    model[0].requires_grad_(False)
    K = empirical_ntk(model, rows())
    hidden = model[:2](rows())
    torch.testing.assert_close(K, (hidden @ hidden.T + 1).detach())


def test_leaves_the_model_alone():
    model = network(2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    empirical_ntk(model, rows())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("model", [nn.Flatten(0), nn.Unflatten(1, (3, 1)), nn.LSTM(3, 2).double()])
def test_refuses_modules_whose_output_is_not_a_row_each(model):
    model.extra = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"\(rows, outputs\) was expected"):
        empirical_ntk(model, rows())


def test_refuses_a_module_with_nothing_to_train():
    with pytest.raises(InputError, match="nothing to train"):
        empirical_ntk(nn.ReLU(), rows())


def test_refuses_unknown_outputs_and_too_large_jacobians(monkeypatch):
    with pytest.raises(UnknownNameError, match="did you mean 'full'"):
        empirical_ntk(network(1), rows(), outputs="ful")
    monkeypatch.setattr("ridgeformer.core.memory.free_bytes", lambda: 100)
    with pytest.raises(InputError, match="Jacobian of one row needs"):
        empirical_ntk(network(1), rows())


@pytest.mark.parametrize("name", ["relu", "mlp-attn", "qkv"])
def test_it_is_the_largest_eigenvalue_of_the_full_kernel(name):
    X = torch.randn(8, 5, generator=torch_generator(0, "rows"), dtype=torch.float64)
    built = Architecture(name, scale=1.0).build(X, 32, 3, torch_generator(0, "weights"))
    rows = built.features(X)
    K = empirical_ntk(built.model, rows, outputs="full").reshape(24, 24)
    found = tangent_norm(built.model, rows, torch_generator(0, "power"), steps=200)
    assert found == pytest.approx(float(torch.linalg.eigvalsh(K)[-1]), rel=1e-3)


def test_a_dead_network_has_none():
    silent = nn.Sequential(nn.Linear(2, 3), nn.Threshold(1e9, 0.0), nn.Linear(3, 1, bias=False)).double()
    assert tangent_norm(silent, torch.ones(2, 2, dtype=torch.float64), torch_generator(0, "power")) == 0.0


def test_the_rate_is_stable_and_close_to_where_it_is_not():
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)
    largest = float(torch.linalg.eigvalsh(ReluNTK()(problem.X))[-1])
    rate = stable_rate(largest, problem.y, "mse")
    assert rate * 2 / problem.y.numel() * largest == pytest.approx(1)  # gradient descent diverges from 2 on
    assert stable_rate(0.0, problem.y, "mse") == 1.0


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_at_the_stable_rate_the_loss_of_a_wide_network_falls(loss):
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)
    built = Architecture("relu", scale=1.0).build(problem.X, 512, 10, torch_generator(0, "weights"))
    rate = stable_rate(tangent_norm(built.model, problem.X, torch_generator(0, "power")), problem.y, loss)
    how = Training("descent", loss, rate=rate, epochs=20, l2=0.0)
    curve = train(built.model, problem.X, problem.y, how, torch_generator(0, "batches")).curve
    assert all(after < before for (_, before), (_, after) in pairwise(curve))


def test_it_is_the_closed_form_of_a_relu_layer_between_any_rows():
    network = ReluNetwork(4, 32, torch_generator(0, "network"), outputs=3)
    X, Z = draw(6, 4, purpose="rows"), draw(3, 4, purpose="others")
    exact, found = NetworkNTK(network.weights), EmpiricalNTK(network)
    torch.testing.assert_close(found(X), exact(X))
    torch.testing.assert_close(found(X, Z), exact(X, Z))
    torch.testing.assert_close(found.diag(X), exact.diag(X))


def test_precision_follows_the_rows():
    assert EmpiricalNTK(nn.Linear(2, 1))(torch.ones(3, 2, dtype=torch.float64)).dtype == torch.float64


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
