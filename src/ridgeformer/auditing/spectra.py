"""The spectrum of the data and of its kernel: how many directions matter, and how wide a model must be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.regime.spectra import gram_spectrum

__all__ = ["Spectra", "examine_spectra"]

ENERGY = 0.99


@dataclass(frozen=True, eq=False)
class Spectra:
    """Eigenvalues of the Gram matrix G = X X' and of the kernel matrix K, descending, and what they say.

    Attributes:
        gram: Eigenvalues of G up to its rank, as squared singular values of X.
        kernel: Eigenvalues of K.
        rank: Numerical rank of X.
        energy_rank: Directions that carry 99 % of the trace of G.
        condition: Condition number of G on its rank.
        ridge: The ridge of the fit.
        d_eff: Effective dimension of K at that ridge.
        system_condition: Condition number of K + ridge I.
        width_10, width_1: Width that is enough for a relative in-sample error of 10 % and 1 % (claim W4).
        measured_10, measured_1: Width at which the best sketch reaches them.
    """

    gram: NDArray[np.float64]
    kernel: NDArray[np.float64]
    rank: int
    energy_rank: int
    condition: float
    ridge: float
    d_eff: float
    system_condition: float
    width_10: int
    width_1: int
    measured_10: int
    measured_1: int


def examine_spectra(X: Tensor, K: Tensor, ridge: float) -> Spectra:
    """Return the spectra of the training rows and of their kernel matrix, in float64."""
    gram = gram_spectrum(X)
    kernel = torch.linalg.eigvalsh(K).flip(0).clamp_min(0).numpy()
    return Spectra(
        gram=gram.nonzero,
        kernel=kernel,
        rank=gram.rank,
        energy_rank=gram.energy_rank(ENERGY),
        condition=gram.condition(),
        ridge=ridge,
        d_eff=float(bounds.effective_dimension(kernel, ridge)),
        system_condition=float((kernel[0] + ridge) / (kernel[-1] + ridge)),
        width_10=int(bounds.width_for_relative_error(kernel, ridge, 0.1)),
        width_1=int(bounds.width_for_relative_error(kernel, ridge, 0.01)),
        measured_10=int(bounds.smallest_pca_width(kernel, ridge, 0.1)),
        measured_1=int(bounds.smallest_pca_width(kernel, ridge, 0.01)),
    )
