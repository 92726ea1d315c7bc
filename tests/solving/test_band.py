import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving import band
from ridgeformer.solving.band import band_form


def semidefinite(n, rank=None):
    half = torch.randn(n, rank or n, generator=torch_generator(0, "band", n), dtype=torch.float64)
    return half @ half.T / n


@pytest.mark.parametrize("tile", [16, 1024])
@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("n", [1, 3, 16, 33, 64, 70])
def test_it_is_the_same_matrix_in_another_basis(n, width, tile, monkeypatch):
    monkeypatch.setattr(band, "TILE", tile)
    monkeypatch.setattr(band, "STRIP", tile)
    K = semidefinite(n)
    before = K.clone()
    form = band_form(K, width)
    assert torch.equal(K, before)
    Q = torch.cat(form.Q, 1)
    B = torch.block_diag(*form.own)
    for k, block in enumerate(form.below):
        low, left = (k + 1) * width, k * width
        B[low : low + len(block), left : left + width] = block
        B[left : left + width, low : low + len(block)] = block.T
    torch.testing.assert_close(Q @ Q.T, torch.eye(n).double(), rtol=0, atol=1e-13)
    torch.testing.assert_close(Q @ B @ Q.T, K, rtol=0, atol=1e-13)


@pytest.mark.parametrize("tile", [64, 1024])
@pytest.mark.parametrize("n", [5, 64, 150])
@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_every_shift_from_one_reduction(n, ridge, tile, monkeypatch):
    for name in ("TILE", "STRIP", "ROWS"):
        monkeypatch.setattr(band, name, tile)
    K, b = semidefinite(n, rank=4), torch.ones(n, 2, dtype=torch.float64)
    form = band_form(K)
    _, factor = form.factors([2 * ridge, ridge])
    inverse = torch.linalg.inv(K + ridge * torch.eye(n, dtype=torch.float64))
    solved = form.turned_back(factor.solve_rotated(form.rotated(b)))
    torch.testing.assert_close(solved, inverse @ b, rtol=1e-10, atol=1e-10 / ridge)
    torch.testing.assert_close(factor.inverse_diagonal(), inverse.diagonal(), rtol=1e-10, atol=0)


def test_columns_that_need_no_reflection():
    """A diagonal matrix has nothing to reflect, and a zero matrix not even a length."""
    for K in (torch.diag(torch.arange(1.0, 10.0).double()), torch.zeros(9, 9).double()):
        torch.testing.assert_close(
            band_form(K, 2).factor(1.0).inverse_diagonal(), 1 / (1 + K.diagonal()), rtol=1e-14, atol=0
        )


def test_a_matrix_with_no_factor_is_refused():
    with pytest.raises(errors.InputError, match="below the round-off"):
        band_form(-semidefinite(9)).factor(1e-3)
