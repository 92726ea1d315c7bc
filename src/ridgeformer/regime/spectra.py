"""Eigenvalues of the Gram matrix and of the kernel matrix, and the widths that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, log10

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.core.checks import ArrayLike, as_matrix, positive, whole
from ridgeformer.core.errors import InputError

__all__ = ["ENERGIES", "GramSpectrum", "Spectra", "attention_order", "examine_spectra", "gram_spectrum"]

ENERGIES = (0.9, 0.95, 0.99, 0.999)
"""Shares of the trace at which condition numbers are usually quoted."""


@dataclass(frozen=True, eq=False)
class GramSpectrum:
    """The spectrum of G = X X', from singular values of X in float64: G and its powers are never formed (L1).

    A condition number means nothing without its truncation (L2): at the rank, at a share of the energy, or at
    min(n, d), where beyond the rank only round-off is left.

    Attributes:
        eigenvalues: All min(n, d) squared singular values, descending.
        rank: How many of them float64 can tell from zero.
        n, d: Shape of X.
    """

    eigenvalues: NDArray[np.float64]
    rank: int
    n: int
    d: int

    @property
    def nonzero(self) -> NDArray[np.float64]:
        """The eigenvalues up to the rank."""
        return self.eigenvalues[: self.rank]

    def energy_rank(self, share: float) -> int:
        """Return how many directions carry this share of the trace."""
        share = positive(share, "share", "a share of the trace")
        if share > 1:
            raise InputError(f"share is {share:g}; a share of the trace, at most 1, was expected.")
        energy = np.cumsum(self.nonzero) / self.nonzero.sum()
        return min(self.rank, int(np.searchsorted(energy, share * (1 - 1e-12)) + 1))

    def condition(self, truncation: int | None = None) -> float:
        """Return kappa(G) on its top `truncation` directions; None takes the rank. Beyond the rank it is round-off."""
        at = self.rank if truncation is None else whole(truncation, "truncation", 1)
        if at > len(self.eigenvalues):
            raise InputError(f"truncation is {at}; G has at most {len(self.eigenvalues)} nonzero eigenvalues.")
        return float(self.eigenvalues[0] / self.eigenvalues[at - 1]) if self.eigenvalues[at - 1] > 0 else inf

    def conditions(self) -> dict[str, tuple[int, float]]:
        """Return (directions, kappa) at every usual truncation: the rank, shares of the energy, min(n, d)."""
        at = {"rank": self.rank}
        at |= {f"{share:.1%} of the energy": self.energy_rank(share) for share in ENERGIES}
        at["min(n, d)"] = len(self.eigenvalues)
        return {name: (directions, self.condition(directions)) for name, directions in at.items()}

    def log10_condition(self, order: int = 1, truncation: int | None = None) -> float:
        """Return log10 of kappa(G^order), for orders whose condition number overflows as well."""
        return order * log10(self.condition(truncation))

    def as_dict(self) -> dict[str, object]:
        """Return rank, condition numbers and eigenvalues as plain values; an infinite kappa is None."""
        conditions = {
            name: {"directions": directions, "kappa": kappa if isfinite(kappa) else None}
            for name, (directions, kappa) in self.conditions().items()
        }
        return {"rank": self.rank, "conditions": conditions, "eigenvalues": self.eigenvalues.tolist()}

    def effective_dimension(self, ridge: float, order: int = 1) -> float:
        """Return d_eff of G^order at this ridge: `bounds.effective_dimension`."""
        return bounds.effective_dimension(self.nonzero**order, ridge)

    @property
    def warning(self) -> str | None:
        """A sentence if kappa at min(n, d) is round-off, else None."""
        if self.rank == len(self.eigenvalues):
            return None
        return (
            f"X has rank {self.rank} < min(n, d) = {len(self.eigenvalues)}: kappa at min(n, d), "
            f"{self.condition(len(self.eigenvalues)):.1e}, is round-off; at the rank it is {self.condition():.1e}."
        )


def gram_spectrum(X: ArrayLike) -> GramSpectrum:
    """Return the spectrum of X X' by an SVD of X in float64.

    Example:
        >>> spectrum = gram_spectrum([[1.0, 0.0], [0.0, 10.0]])
        >>> spectrum.condition(), spectrum.log10_condition(order=3)
        (100.0, 6.0)
    """
    X = as_matrix(X).detach().to("cpu", torch.float64)
    singular = torch.linalg.svdvals(X).numpy()
    if singular[0] == 0:
        raise InputError("every row of X is zero, so its Gram matrix has no spectrum: give rows that are not zero.")
    cut = singular[0] * max(X.shape) * torch.finfo(torch.float64).eps
    return GramSpectrum(np.square(singular), int((singular > cut).sum()), *X.shape)


def attention_order(layers: int, *, recompute: bool = False) -> int:
    """Return the p of K = G^p after `layers` layers of linearised attention without normalisation (L9).

    One attention matrix G used by every layer: 2 k + 1. Attention recomputed from each layer's own output: 3^k.

    Example:
        >>> attention_order(2), attention_order(2, recompute=True)
        (5, 9)
    """
    layers = whole(layers, "layers", 0)
    return 3**layers if recompute else 2 * layers + 1


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


def examine_spectra(X: Tensor, eigenvalues: Tensor, ridge: float) -> Spectra:
    """Return the spectra of the training rows and of their kernel matrix, whose eigenvalues are given, descending."""
    gram = gram_spectrum(X)
    kernel = eigenvalues.double().clamp_min(0).numpy()
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
