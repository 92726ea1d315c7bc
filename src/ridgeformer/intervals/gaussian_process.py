"""Kernel ridge regression read as a Gaussian process: f ~ GP(0, scale k), y = f(X) + noise of variance scale ridge."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.seeds import torch_generator

__all__ = ["Posterior", "log_likelihood", "variance_interval"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of f at some queries.

    Attributes:
        mean: (q,) or (q, outputs), the prediction.
        variance: of f(x), without the noise of a new target; never negative.
        low, high: a proved interval for the exact variance, round-off and solver error included.
        noise: the variance of a new target around f(x).
        covariance: of f at the queries, where it was asked for.
    """

    mean: Tensor
    variance: Float[Tensor, " q"]
    low: Float[Tensor, " q"]
    high: Float[Tensor, " q"]
    noise: float
    covariance: Float[Tensor, "q q"] | None = field(default=None, repr=False)

    @property
    def std(self) -> Float[Tensor, " q"]:
        """The standard deviation of f(x)."""
        return self.variance.sqrt()

    def sample(self, draws: int = 1, *, seed: int = 0) -> Tensor:
        """Return draws of f at the queries, (draws, q) or (draws, q, outputs); outputs are independent.

        The covariance's eigenvalues below zero, which only round-off makes, are taken as zero.
        """
        draws = whole(draws, "draws", 1)
        assert self.covariance is not None, "the posterior was made without its covariance"
        values, vectors = torch.linalg.eigh(self.covariance)
        root = vectors * values.clamp_min(0).sqrt()
        normal = torch.randn(
            draws, *self.mean.shape, generator=torch_generator(seed, "posterior"), dtype=self.mean.dtype
        )
        return self.mean + torch.einsum("ij,dj...->di...", root, normal.to(root))


def variance_interval(
    diagonal: Float[Tensor, " q"],
    energy: Float[Tensor, " q"],
    energy_error: Float[Tensor, " q"],
    residual_norm: Float[Tensor, " q"],
    diagonal_error: Float[Tensor, " q"],
    trace: float,
    ridge: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the posterior variance v = k(x, x) - k'A^-1 k with a proved interval: (v, low, high).

    For any z, with rho = k - A z, k'A^-1 k = k'z + z'rho + rho'A^-1 rho, and 0 <= rho'A^-1 rho <= ||rho||^2/ridge.
    Moreover ridge k(x, x)/(tr K + ridge) <= v <= k(x, x) for a positive semidefinite kernel, so v is positive.

    Args:
        diagonal: k(x, x).
        energy: k'z + z'rho as computed.
        energy_error: how far that can be from its exact value.
        residual_norm: ||rho||, from above.
        diagonal_error: of k(x, x).
        trace: of K, from above.
        ridge: the ridge.

    Example:
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> [float(end) for end in variance_interval(one, 0.9 * one, 0 * one, 0.1 * one, 0 * one, 1.0, 0.5)]
        [0.3333333333333333, 0.3333333333333333, 0.3333333333333333]
    """
    least = (diagonal - diagonal_error).clamp_min(0) * (ridge / (trace + ridge))
    most = diagonal + diagonal_error
    high = torch.minimum(most, most - energy + energy_error)
    low = torch.maximum(least, diagonal - diagonal_error - energy - energy_error - residual_norm.square() / ridge)
    high = torch.maximum(high, low)  # only where least and high meet in their last digit
    return (diagonal - energy).clamp(low, high), low, high


def log_likelihood(
    y: Float[Tensor, "n r"],
    alpha: Float[Tensor, "n r"],
    log_determinant: Tensor,
    inverse_diagonal: Float[Tensor, " n"] | None = None,
    *,
    scale: Tensor | float = 1.0,
) -> Tensor:
    """Return the log marginal likelihood of y ~ N(0, scale A), or with `inverse_diagonal` the leave-one-out one.

    The latter sums the log densities of every y_i under its prediction from the other rows, of mean
    y_i - alpha_i/R_ii and variance scale/R_ii. Outputs are independent and summed.

    Args:
        y: targets.
        alpha: A^-1 y.
        log_determinant: of A.
        inverse_diagonal: the diagonal of R = A^-1.
        scale: of the kernel and the noise.

    Example:
        >>> y = torch.tensor([[1.0]], dtype=torch.float64)
        >>> float(log_likelihood(y, y / 2, torch.tensor(2.0).double().log()))  # N(0, 2) at 1
        -1.5155...
    """
    n, outputs = y.shape
    size = torch.as_tensor(scale, dtype=y.dtype)
    if inverse_diagonal is None:
        quadratic = (y * alpha).sum() / size
        return -0.5 * (quadratic + outputs * (log_determinant + n * (size.log() + log(2 * pi))))
    squares = (alpha.square() / inverse_diagonal[:, None]).sum() / size
    return -0.5 * (squares + outputs * (n * (size.log() + log(2 * pi)) - inverse_diagonal.log().sum()))
