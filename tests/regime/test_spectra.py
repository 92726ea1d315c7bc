from math import inf, log10

import numpy as np
import pytest
import torch

from ridgeformer.bounds import effective_dimension
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import GramPower
from ridgeformer.regime import LinearisedAttention, attention_order, gram_spectrum
from ridgeformer.regime.spectra import examine_spectra


def with_condition(kappa, n=30, d=8):
    """Rows whose G has condition number kappa."""
    generator = torch_generator(0, "rows")
    U, _ = torch.linalg.qr(torch.randn(n, d, generator=generator, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    return U @ torch.diag(torch.logspace(0, -log10(kappa) / 2, d, dtype=torch.float64)) @ V


def test_cube_keeps_the_digits_that_a_formed_cube_loses():
    """L1: the features X X'X have G^3; in float32 a formed G^3 has a negative eigenvalue at kappa 1e3."""
    X = with_condition(1e3)
    spectrum = gram_spectrum(X)
    assert spectrum.condition() == pytest.approx(1e3, rel=1e-9)
    assert spectrum.log10_condition(order=3) == pytest.approx(9)
    assert np.allclose(spectrum.nonzero**3, GramPower(3, X).spectrum().numpy(), rtol=1e-12)
    G = (X @ X.T).float()
    assert float(torch.linalg.eigvalsh(G @ G @ G)[0]) < 0


def test_truncation_decides_the_condition_number():
    """L2: digits, n = 1000, has rank 61 < 64, and kappa at 64 is round-off."""
    spectrum = gram_spectrum(unit_rows(load("digits").X[:1000]))
    assert spectrum.rank == 61
    assert spectrum.condition(64) > 1e20
    assert "rank 61 < min(n, d) = 64" in spectrum.warning
    ranks = [spectrum.energy_rank(share) for share in (0.9, 0.99, 0.999, 1.0)]
    assert ranks == sorted(ranks)
    assert ranks[-1] <= 61
    assert spectrum.condition(ranks[1]) < 1e4 < spectrum.condition()


def test_all_usual_truncations_at_once():
    spectrum = gram_spectrum(np.diag(np.sqrt([96.0, 3.0, 1.0, 0.0])))
    assert spectrum.conditions() == {
        "rank": (3, pytest.approx(96)),
        "90.0% of the energy": (1, 1.0),
        "95.0% of the energy": (1, 1.0),
        "99.0% of the energy": (2, pytest.approx(32)),
        "99.9% of the energy": (3, pytest.approx(96)),
        "min(n, d)": (4, inf),
    }


def test_no_warning_at_full_rank():
    assert gram_spectrum(with_condition(10.0)).warning is None


def test_energy_rank_is_the_smallest_that_carries_the_share():
    spectrum = gram_spectrum(np.diag(np.sqrt([6.0, 3.0, 1.0])))
    assert [spectrum.energy_rank(share) for share in (0.6, 0.61, 0.9, 0.91, 1.0)] == [1, 2, 2, 3, 3]


def test_effective_dimension_is_that_of_the_kernel():
    X = with_condition(50.0)
    G = X @ X.T
    direct = torch.linalg.eigvalsh(G @ G @ G).clamp_min(0).numpy()
    assert gram_spectrum(X).effective_dimension(0.1, order=3) == pytest.approx(effective_dimension(direct, 0.1))


@pytest.mark.parametrize(("layers", "recompute", "order"), [(0, False, 1), (1, False, 3), (2, False, 5), (2, True, 9)])
def test_layers_give_the_power_they_should(layers, recompute, order):
    """L9, against the attention features themselves."""
    X = with_condition(4.0)
    features = LinearisedAttention(X, layers=layers, recompute=recompute, normalise=False)(X)
    assert attention_order(layers, recompute=recompute) == order
    expected = gram_spectrum(X)
    assert np.allclose(gram_spectrum(features).nonzero, expected.nonzero**order, rtol=1e-9)
    assert gram_spectrum(features).condition() == pytest.approx(10 ** expected.log10_condition(order))


def test_row_normalisation_keeps_the_cube_or_not():
    """L3: nearly kept on digits, lost on diag(1, 10)."""
    X = torch.from_numpy(unit_rows(load("digits").X[:200]))
    cube = 10 ** gram_spectrum(X).log10_condition(3)
    assert gram_spectrum(LinearisedAttention(X)(X)).condition() == pytest.approx(cube, rel=0.2)
    X = torch.diag(torch.tensor([1.0, 10.0], dtype=torch.float64))
    assert 10 ** gram_spectrum(X).log10_condition(3) == pytest.approx(1e6)
    assert gram_spectrum(LinearisedAttention(X)(X)).condition() == pytest.approx(1)


def test_zero_eigenvalues_have_infinite_condition():
    assert gram_spectrum(np.diag([1.0, 0.0])).condition(2) == inf


def test_refuses_what_has_no_spectrum():
    with pytest.raises(InputError, match="every row of X is zero"):
        gram_spectrum(np.zeros((2, 2)))
    with pytest.raises(InputError, match="truncation is 3"):
        gram_spectrum(np.eye(2)).condition(3)
    with pytest.raises(InputError, match="share"):
        gram_spectrum(np.eye(2)).energy_rank(1.1)
    with pytest.raises(InputError, match="layers"):
        attention_order(-1)


def test_rank_energy_and_condition_of_a_known_matrix():
    X = torch.diag(torch.tensor([10.0, 1.0, 0.1, 0.0], dtype=torch.float64))
    spectra = examine_spectra(X, torch.tensor([3.0, 1.0], dtype=torch.float64), ridge=1.0)
    np.testing.assert_allclose(spectra.gram, [100.0, 1.0, 0.01])
    assert (spectra.rank, spectra.energy_rank) == (3, 1)
    assert spectra.d_eff == 0.75 + 0.5
    assert spectra.system_condition == 2.0
    assert spectra.measured_10 <= spectra.width_10 <= 2
