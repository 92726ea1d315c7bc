"""How far a kernel is from its limit and how wide a network must be, by four criteria (L4); float64 checks (L14)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf, log, log10
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, positive, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime.spectra import gram_spectrum

__all__ = [
    "Criterion",
    "KernelDistances",
    "NumericalChecks",
    "check_numerically",
    "kernel_distances",
    "published_width",
    "required_widths",
    "width_from_measurement",
]


@dataclass(frozen=True)
class KernelDistances:
    """How far a kernel K is from its limit L, with dK = K - L; all norms spectral but the second.

    Attributes:
        additive: norm(dK) / l_min(L). Theorems that keep K definite ask for 1/4.
        frobenius: norm_F(dK) / norm_F(L): the average entry.
        multiplicative: The smallest d with (1 - d) L <= K <= (1 + d) L.
        whitened: The smallest d with -d (L + ridge I) <= dK <= d (L + ridge I): what ridge regression sees.
        ridge: The ridge of `whitened`.
        definite: Whether float64 can tell l_min(L) from zero; `additive` and `multiplicative` are infinite if not.
    """

    additive: float
    frobenius: float
    multiplicative: float
    whitened: float
    ridge: float
    definite: bool


def kernel_distances(K: ArrayLike, limit: ArrayLike, *, ridge: float) -> KernelDistances:
    """Return the distance of K from `limit` under each criterion, in float64.

    In sample, ridge regression with K instead of L errs by at most d / (1 - d) relative to norm(y) where
    d = whitened < 1, whatever the condition number.

    Example:
        >>> d = kernel_distances([[1.0, 0.0], [0.0, 0.2]], [[1.0, 0.0], [0.0, 0.1]], ridge=0.9)
        >>> d.additive, d.multiplicative, d.whitened
        (1.0, 1.0, 0.1)
    """
    L = _square(limit, "limit")
    K = _square(K, "K").to(L.device)
    ridge = positive(ridge, "ridge", "it whitens the directions the limit has nothing in")
    if K.shape != L.shape:
        raise ShapeError(f"K has shape {tuple(K.shape)} and limit {tuple(L.shape)}: give kernels of the same rows.")
    values, Q = torch.linalg.eigh(L)
    gap = Q.T @ (K - L) @ Q
    smallest, largest = float(values[0]), float(values[-1])
    definite = smallest > len(values) * torch.finfo(torch.float64).eps * largest

    def spectral(symmetric: Tensor) -> float:
        return float(torch.linalg.eigvalsh((symmetric + symmetric.T) / 2).abs().max())

    def whitened(values: Tensor) -> float:
        scale = values.rsqrt()
        return spectral(scale[:, None] * gap * scale[None, :])

    return KernelDistances(
        additive=spectral(gap) / smallest if definite else inf,
        frobenius=float(gap.norm() / values.norm()),
        multiplicative=whitened(values) if definite else inf,
        whitened=whitened(values.clamp_min(0) + ridge),
        ridge=ridge,
        definite=definite,
    )


def _square(value: ArrayLike, name: str) -> Tensor:
    matrix = as_matrix(value, name).detach().to(torch.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name} has shape {tuple(matrix.shape)}; a kernel matrix (n, n) was expected.")
    return matrix


@dataclass(frozen=True)
class NumericalChecks:
    """What float64 makes of K and (K + ridge I)^-1.

    Attributes:
        smallest: Smallest eigenvalue of K.
        condition: Condition number of K + ridge I.
        inverse_error: norm_F((K + ridge I)^-1 (K + ridge I) - I), published to be below 1e-12.
        inverse_error_in_units: The same over eps times the condition number: what round-off allows is of order n.
        asymmetry: Largest difference of K from its transpose.
    """

    smallest: float
    condition: float
    inverse_error: float
    inverse_error_in_units: float
    asymmetry: float


def check_numerically(K: ArrayLike, *, ridge: float) -> NumericalChecks:
    """Return the checks for a kernel matrix and a ridge.

    Example:
        >>> check_numerically(torch.eye(2, dtype=torch.float64), ridge=1.0).condition
        1.0
    """
    K, ridge = _square(K, "K"), positive(ridge, "ridge", "K + ridge I must be invertible")
    eye = torch.eye(len(K), dtype=K.dtype, device=K.device)
    values = torch.linalg.eigvalsh((K + K.T) / 2)
    A = K + ridge * eye
    condition = float((values[-1] + ridge) / (values[0] + ridge))
    error = float((torch.linalg.inv(A) @ A - eye).norm())
    return NumericalChecks(
        smallest=float(values[0]),
        condition=condition,
        inverse_error=error,
        inverse_error_in_units=error / (torch.finfo(torch.float64).eps * condition),
        asymmetry=float((K - K.T).abs().max()),
    )


REACHABLE = 1e9
"""A width that can be run at initialisation on a laptop."""


@dataclass(frozen=True)
class Criterion:
    """One meaning of "close to the limit": the width it asks for and, once measured, the distances there are.

    Attributes:
        name: "additive", "frobenius", "multiplicative", "whitened" or "published".
        log10_sufficient: log10 of the width that the theory, or the published formula, asks for.
        tolerance: The distance asked for, in the criterion's own sense; None for the published formula.
        assumption: What that width rests on.
        here: The distance of the network's own kernel, if measured.
        widest: The distance at the widest kernel that was drawn, if one was.
        log10_expected: log10 of the width at which that distance falls to the tolerance, as 1/sqrt(m).
    """

    name: str
    log10_sufficient: float
    tolerance: float | None
    assumption: str
    here: float | None = None
    widest: float | None = None
    log10_expected: float | None = None

    @property
    def log10_width(self) -> float:
        """log10 of the width that is expected to be enough; by the formula where nothing was measured."""
        return self.log10_sufficient if self.log10_expected is None else self.log10_expected

    @property
    def reachable(self) -> bool:
        """Whether that width can be run."""
        return self.log10_width <= log10(REACHABLE)

    def as_dict(self) -> dict[str, Any]:
        """Return the record by name."""
        return asdict(self) | {"reachable": self.reachable}


def required_widths(
    X: ArrayLike, *, ridge: float, tolerance: float = 0.1, failure: float = 0.01, kappa: float | None = None
) -> tuple[Criterion, ...]:
    """Return the width that suffices on these rows by each criterion, and by the published formula.

    K_m is an average of m independent matrices A_r = G o d_r d_r', 0 <= A_r <= norm(G) I, with mean L. The matrix
    Bernstein inequality bounds its spectral distance from L, whitened or not, with probability 1 - failure; the mean
    square of the Frobenius distance is known exactly. All but the last are for weights at initialisation.

    `X` are the rows the ReLU layer sees, after attention if there is any; `ridge` is that of the whitened criterion.
    The additive criterion has its own tolerance, 1/4. `kappa` is the published formula's condition number, of G before
    attention; None takes that of X at its rank.

    Example:
        >>> for need in required_widths([[1.0, 0.0], [0.6, 0.8]], ridge=0.5):
        ...     print(need.name, round(10**need.log10_sufficient), need.reachable)
        additive 2710 True
        frobenius 113 True
        multiplicative 6866 True
        whitened 1509 True
        published 5678 True
    """
    X = as_matrix(X).detach().to("cpu", torch.float64)
    if X.shape[0] < 2:
        raise InputError("X has one row; a width for the kernel of at least two rows was expected: give more rows.")
    ridge, tolerance = positive(ridge, "ridge", "K + ridge I"), positive(tolerance, "tolerance", "a distance")
    L, G = ReluNTK()(X), X @ X.T
    values = torch.linalg.eigvalsh(L)
    smallest, largest = float(values[0]), float(values[-1])
    spectrum = gram_spectrum(X)
    top = float(spectrum.eigenvalues[0])
    if smallest <= len(values) * torch.finfo(torch.float64).eps * largest:
        raise InputError(
            f"the limit kernel is singular (smallest eigenvalue {smallest:.1e}), so no width is enough by the additive "
            "criterion: drop rows that repeat up to a factor."
        )
    logs = log(2 * X.shape[0] / positive(failure, "failure", "a probability"))
    share = torch.where(G == 0, 0.25, L / torch.where(G == 0, 1.0, G))
    variance = float((G.square() * share * (1 - share)).sum() / L.square().sum())

    def bernstein(variance: float, largest_term: float, t: float) -> float:
        return log10(2 * logs * (variance + largest_term * t / 3) / t**2)

    law = "sufficient by matrix Bernstein"
    white = top / (smallest + ridge)
    return (
        Criterion(
            "additive", bernstein(top * largest, top, smallest / 4), 0.25, f"norm(dK) <= l_min/4, {law}: kappa squared"
        ),
        Criterion(
            "frobenius", log10(variance / tolerance**2), tolerance, "exact for the root mean square over draws"
        ),
        Criterion(
            "multiplicative", bernstein(top / smallest, top / smallest, tolerance), tolerance, f"{law}: linear in kappa"
        ),
        Criterion(
            "whitened", bernstein(white * largest / (largest + ridge), white, tolerance), tolerance,
            f"{law}: norm(G)/ridge, free of kappa",
        ),
        published_width(spectrum.condition() if kappa is None else kappa, X.shape[0]),
    )  # fmt: skip


def published_width(kappa: float, rows: int) -> Criterion:
    """Return kappa^6 n ln n, published as necessary for X X'X; as such it is false, and it is not needed (L4).

    `kappa` is the condition number of G before attention; state its truncation.

    Example:
        >>> round(published_width(1.2e3, 60_000).log10_sufficient)
        24
    """
    kappa, rows = positive(kappa, "kappa", "a condition number"), whole(rows, "rows", 2)
    return Criterion(
        "published",
        6 * log10(kappa) + log10(rows * log(rows)),
        None,
        "kappa^6 n ln n as published; concentration shows sufficiency of less, and no one showed necessity",
    )


def width_from_measurement(distance: float, width: int, tolerance: float) -> float:
    """Return log10 of the width at which a distance measured at `width` falls to `tolerance`, as 1/sqrt(m).

    Holds where the distance is small against 1, in any of the four senses.

    Example:
        >>> round(width_from_measurement(0.1, 1000, 0.01), 12)
        5.0
    """
    distance = positive(distance, "distance", "a measured distance")
    return log10(whole(width, "width", 1)) + 2 * log10(distance / positive(tolerance, "tolerance", "a distance"))


def judge_criteria(
    seen: Tensor,
    here: KernelDistances | None,
    at_widths: tuple[tuple[int, KernelDistances], ...],
    ridge: float,
    kappa: float,
) -> tuple[Criterion, ...]:
    """Return every criterion; none if there is no limit, or if it is singular.

    `seen` are the rows of the ReLU layer, `here` and `at_widths` the distances at initialisation of the network's
    kernel and of wider ones, widest last, and `kappa` is the condition number before attention.
    """
    if here is None or not here.definite:
        return ()
    width, distances = at_widths[-1]

    def judge(need: Criterion) -> Criterion:
        if need.tolerance is None:
            return need
        widest = float(getattr(distances, need.name))
        expected = width_from_measurement(widest, width, need.tolerance)
        return replace(need, here=float(getattr(here, need.name)), widest=widest, log10_expected=expected)

    return tuple(judge(need) for need in required_widths(seen, ridge=ridge, kappa=kappa))
