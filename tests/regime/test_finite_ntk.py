import numpy as np
import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    NetworkNTK,
    ReluNetwork,
    Training,
    empirical_ntk,
    finite_ntk,
    finite_relu_ntk,
    finite_relu_ntks,
    kernel_distances,
    network_kernel,
    relu_ntk_of_weights,
)
from ridgeformer.regime.finite_ntk import (
    BLOCK,
    draw_patterns,
    gram_factor,
    pack_patterns,
    shared_neurons,
    stream_counts,
)
from tests.kernels.kernel_case import KernelCase


@pytest.mark.parametrize("m", [1, 63, 64, 65, 1000, BLOCK, 5 * BLOCK])
def test_counts_equal_the_integer_product(m):
    active = numpy_generator(0, "active").random((9, m)) < 0.95
    naive = active.astype(np.int64) @ active.T.astype(np.int64)
    assert np.array_equal(shared_neurons(pack_patterns(active)), naive)


@pytest.mark.parametrize(("n", "d"), [(5, 8), (8, 5), (200, 3)])
def test_factor_reproduces_the_gram_matrix_and_is_trapezoidal(n, d):
    X = torch.randn(n, d, generator=torch_generator(0, "rows"), dtype=torch.float64)
    F = gram_factor(X)
    torch.testing.assert_close(F @ F.T, X @ X.T, rtol=1e-12, atol=1e-12)
    assert float(F.triu(1).abs().max()) == 0


def test_factor_of_dependent_rows_does_not_depend_on_threads():
    """Digits have pixels that are always zero: with the freedom that leaves, two threads chose another factor."""
    X = torch.from_numpy(load("digits", limit=200).X).double()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = gram_factor(X)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        assert torch.equal(two, gram_factor(X))
    finally:
        torch.set_num_threads(before)


def test_patterns_are_the_signs_of_the_factored_sums(monkeypatch):
    """Against the plain product, with every block edge inside: rows, neurons drawn, words."""
    monkeypatch.setattr(finite_ntk, "ROWS", 3)
    monkeypatch.setattr(finite_ntk, "DRAWN", 64)
    F = gram_factor(torch.randn(7, 9, generator=torch_generator(0, "rows"), dtype=torch.float64))
    packed = draw_patterns(F, 170, torch_generator(1, "z"))
    generator = torch_generator(1, "z")
    z = torch.cat([torch.empty(7, 64, dtype=F.dtype).normal_(generator=generator) for _ in range(3)], dim=1)[:, :170]
    assert np.array_equal(packed, pack_patterns((F @ z > 0).numpy()))


def test_sums_have_the_covariance_of_the_rows():
    """Two unit rows at angle t share (pi - t)/(2 pi) of the neurons; five standard errors."""
    t, m = 1.0, 200_000
    X = torch.tensor([[1.0, 0.0], [np.cos(t), np.sin(t)]], dtype=torch.float64)
    share = stream_counts(gram_factor(X).float(), m, seed=0, threads=1) / m
    assert abs(share[0, 1] - (np.pi - t) / (2 * np.pi)) < 5 * 0.5 / np.sqrt(m)
    assert abs(share[0, 0] - 0.5) < 5 * 0.5 / np.sqrt(m)


def test_result_does_not_depend_on_threads():
    F = torch.randn(6, 4, generator=torch_generator(0, "factor"))
    neurons, reported = 3 * BLOCK + 17, []
    one = stream_counts(F, neurons, seed=5, threads=1)
    assert np.array_equal(one, stream_counts(F, neurons, seed=5, threads=3, progress=reported.append))
    assert not np.array_equal(one, stream_counts(F, neurons, seed=6, threads=1))
    assert sum(reported) == neurons


def test_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    stream_counts(torch.eye(2), 10, seed=0, threads=2)
    assert torch.get_num_threads() == before


def test_an_error_in_a_worker_is_raised():
    def fail(neurons):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stream_counts(torch.eye(2), 10, seed=0, threads=2, progress=fail)


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
@pytest.mark.usefixtures("unchecked")
def test_refuses_widths_that_do_not_rise(widths):
    with pytest.raises(InputError, match="width"):
        list(finite_relu_ntks(torch.eye(2), widths, torch_generator(0, "neurons")))


def test_says_how_much_memory_is_needed_before_starting(monkeypatch):
    monkeypatch.setattr("ridgeformer.core.memory.free_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"a kernel of 2 rows needs about .* GB"):
        finite_relu_ntk(torch.eye(2), 10, torch_generator(0, "neurons"))


def draw_rows(n, d, purpose):
    return torch.randn(n, d, generator=torch_generator(4, purpose), dtype=torch.float64)


class TestNetworkNTK(KernelCase):
    def kernel(self):
        return NetworkNTK(draw_rows(50, self.d, "weights"))

    def formula(self, x, z):
        W = draw_rows(50, self.d, "weights").numpy()
        return float(np.mean((W @ x > 0) & (W @ z > 0)) * (x @ z))


def test_it_is_the_kernel_of_the_activation_pattern():
    X, W = draw_rows(9, 4, "rows"), draw_rows(33, 4, "weights")
    torch.testing.assert_close(NetworkNTK(W)(X), relu_ntk_of_weights(X, W))


def test_it_is_the_jacobian_of_the_network_it_was_drawn_as():
    X, y = draw_rows(6, 4, "rows"), draw_rows(6, 1, "targets")
    network = ReluNetwork(4, 20, torch_generator(5, "network"))
    torch.testing.assert_close(network_kernel(X, y, 20, 5)(X), empirical_ntk(network, X).reshape(6, 6))


def test_training_and_the_seed_change_it():
    X, y = draw_rows(20, 4, "rows"), draw_rows(20, 1, "targets").sign()
    start = network_kernel(X, y, 20, 5)
    trained = network_kernel(X, y, 20, 5, Training(method="descent", rate=0.5, epochs=50))
    again = network_kernel(X, y, 20, 5, Training(method="descent", rate=0.5, epochs=50))
    assert torch.equal(trained.weights, again.weights)
    assert not torch.equal(trained.weights, start.weights)
    assert not torch.equal(network_kernel(X, y, 20, 6).weights, start.weights)


def test_patterns_that_are_kept_follow_the_rows():
    X, W = draw_rows(6, 4, "rows"), draw_rows(20, 4, "weights")
    kernel = NetworkNTK(W)
    kernel(X)
    X.neg_()
    torch.testing.assert_close(kernel(X), relu_ntk_of_weights(X, W))
    for shift in range(3):
        moved = X + shift
        torch.testing.assert_close(kernel(moved, X), NetworkNTK(W)(moved, X))


def test_the_precision_of_the_weights_decides_which_neurons_are_active():
    barely = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    X = torch.tensor([[1.0, 1.0 - 1e-12]], dtype=torch.float64)
    assert float(NetworkNTK(barely)(X)) > 0
    assert float(NetworkNTK(barely.float())(X)) == 0
