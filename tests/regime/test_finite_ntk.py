import numpy as np
import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import empirical_ntk, finite_relu_ntk, finite_relu_ntks, kernel_distances, relu_ntk_of_weights


class Plain(nn.Module):
    """The network as its formula says, for autodiff."""

    def __init__(self, W, a):
        super().__init__()
        self.W = nn.Parameter(W)
        self.register_buffer("a", a)

    def forward(self, x):
        return ((x @ self.W.T).relu() @ self.a / self.a.shape[0] ** 0.5)[:, None]


def draw(n, d, m):
    X = torch.randn(n, d, generator=torch_generator(0, "rows"), dtype=torch.float64)
    W = torch.randn(m, d, generator=torch_generator(0, "weights"), dtype=torch.float64)
    a = torch.randint(0, 2, (m,), generator=torch_generator(0, "signs")).double() * 2 - 1
    return X, W, a


@pytest.mark.parametrize(("n", "d", "m"), [(12, 5, 40), (7, 20, 129), (3, 2, 2**14 + 5), (1, 3, 8)])
def test_closed_form_equals_autodiff(n, d, m):
    X, W, a = draw(n, d, m)
    gap = relu_ntk_of_weights(X, W) - empirical_ntk(Plain(W, a), X)
    assert float(gap.abs().max()) < 1e-10


def test_limit_is_approached_as_one_over_root_m():
    """Slope of the logarithm of the Frobenius distance on log m, over 8 growing networks each."""
    X = torch.from_numpy(unit_rows(load("digits", limit=60).X))
    limit, widths = ReluNTK()(X), [2**k for k in range(6, 17, 2)]
    errors = np.zeros((8, len(widths)))
    for draw_ in range(8):
        for i, (_, K) in enumerate(finite_relu_ntks(X, widths, torch_generator(draw_, "neurons"), threads=1)):
            errors[draw_, i] = float((K - limit).square().sum())
    slope = np.polyfit(np.log(widths), np.log(errors.mean(0)) / 2, 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize(("attention", "low", "high"), [(True, 50, 600), (False, 0.5, 6)])
def test_criteria_of_l4_on_digits(attention, low, high):
    """Attention: additive 184, Frobenius .0023, multiplicative .165, whitened .006; raw rows: 1.8, .0021, .019."""
    X = torch.from_numpy(unit_rows(load("digits").X[:100]))
    X = torch.from_numpy(unit_rows(X @ X.T @ X)) if attention else X
    limit = ReluNTK()(X)
    ridge = float(limit.diagonal().mean())
    found = kernel_distances(finite_relu_ntk(X, 400_000, torch_generator(0, "L4"), threads=1), limit, ridge=ridge)
    assert low < found.additive < high
    assert found.frobenius == pytest.approx(0.0022, rel=0.7)
    assert found.multiplicative == pytest.approx(0.165 if attention else 0.019, rel=0.3)
    assert found.whitened == pytest.approx(0.006, rel=0.5)


def test_growing_network_keeps_its_neurons():
    X, _, _ = draw(4, 3, 1)
    grown = dict(finite_relu_ntks(X, [1000, 1001], torch_generator(0, "neurons")))
    change = 1001 * grown[1001] - 1000 * grown[1000]
    G = X @ X.T
    assert float((change / G).round(decimals=6).unique().numel()) <= 2  # one neuron more: its 0/1 pattern times G
    torch.testing.assert_close(finite_relu_ntk(X, 1000, torch_generator(0, "neurons"), threads=5), grown[1000])


def test_rows_of_any_size_and_zero_rows():
    X = torch.tensor([[1e-160, 0.0], [3e150, 4e150], [0.0, 0.0]], dtype=torch.float64)
    K = finite_relu_ntk(X, 100, torch_generator(0, "neurons"))
    assert bool(torch.isfinite(K).all())
    assert 0.2 < float(K[1, 1]) / 25e300 < 0.8
    assert float(K[2].abs().max()) == 0


def test_dtype_follows_the_rows():
    assert finite_relu_ntk(torch.eye(2), 10, torch_generator(0, "neurons")).dtype == torch.float32


@pytest.mark.parametrize("widths", [[], [3, 2], [2, 2], [0], [1.5]])
def test_refuses_widths_that_do_not_rise(widths):
    with pytest.raises(InputError, match="width"):
        list(finite_relu_ntks(torch.eye(2), widths, torch_generator(0, "neurons")))


def test_says_how_much_memory_is_needed_before_starting(monkeypatch):
    monkeypatch.setattr("ridgeformer.core.memory.free_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"a kernel of 2 rows needs about .* GB"):
        finite_relu_ntk(torch.eye(2), 10, torch_generator(0, "neurons"))
