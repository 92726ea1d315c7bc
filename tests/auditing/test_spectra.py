import numpy as np
import torch

from ridgeformer.regime.spectra import examine_spectra


def test_rank_energy_and_condition_of_a_known_matrix():
    X = torch.diag(torch.tensor([10.0, 1.0, 0.1, 0.0], dtype=torch.float64))
    spectra = examine_spectra(X, torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64)), ridge=1.0)
    np.testing.assert_allclose(spectra.gram, [100.0, 1.0, 0.01])
    assert (spectra.rank, spectra.energy_rank) == (3, 1)
    assert spectra.d_eff == 0.75 + 0.5
    assert spectra.system_condition == 2.0
    assert spectra.measured_10 <= spectra.width_10 <= 2
