import numpy as np
import pytest
import torch

from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.datasets import load
from ridgeformer.regime import activation_counts
from ridgeformer.regime.finite_ntk import (
    BLOCK,
    draw_patterns,
    gram_factor,
    pack_patterns,
    shared_neurons,
    stream_counts,
)


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
    monkeypatch.setattr(activation_counts, "ROWS", 3)
    monkeypatch.setattr(activation_counts, "DRAWN", 64)
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
