import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import empirical_ntk


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
