from itertools import pairwise

import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Architecture, NetworkNTK, ReluNetwork, Training, empirical_ntk, train
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
    losses = train(built.model, problem.X, problem.y, how, torch_generator(0, "batches")).losses
    assert all(after < before for before, after in pairwise(losses))


def test_it_is_the_closed_form_of_a_relu_layer_between_any_rows():
    network = ReluNetwork(4, 32, torch_generator(0, "network"), outputs=3)
    X, Z = draw(6, 4, purpose="rows"), draw(3, 4, purpose="others")
    exact, found = NetworkNTK(network.weights), EmpiricalNTK(network)
    torch.testing.assert_close(found(X), exact(X))
    torch.testing.assert_close(found(X, Z), exact(X, Z))
    torch.testing.assert_close(found.diag(X), exact.diag(X))


def test_precision_follows_the_rows():
    assert EmpiricalNTK(nn.Linear(2, 1))(torch.ones(3, 2, dtype=torch.float64)).dtype == torch.float64
